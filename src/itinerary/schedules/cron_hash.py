"""`H`: a stable spread of jobs over a field, hashed from the job's name.

    H          one value of the field            H/15         every 15, from a hashed offset
    H(0-29)    one value of the range            H(0-29)/10   every 10 within the range, likewise

A hundred nightly jobs written `H 3 * * *` do not all start at 03:00:00, and each job always keeps its minute. The
expansion is text: an ordinary expression that is stored and shown, so that the hash is computed only once.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from itinerary.errors import ScheduleError
from itinerary.schedules.cron_fields import DAY_OF_MONTH, DAY_OF_WEEK, YEAR, Field

__all__ = ["expand_hash", "is_hashed"]

_HASH: Final = re.compile(r"H(?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?", re.ASCII | re.IGNORECASE)


def is_hashed(text: str) -> bool:
    """True if a field's text has an `H` item (and not just a name such as THU)."""
    return any(_HASH.fullmatch(item) for item in text.split(","))


def expand_hash(field: Field, text: str, job: str) -> str:
    """The field's text with each `H` item replaced by what it stands for in this job."""
    return ",".join(_expanded(field, item, job) for item in text.split(","))


def _expanded(field: Field, item: str, job: str) -> str:
    matched = _HASH.fullmatch(item)
    if matched is None:
        return item
    if field is YEAR:
        raise ScheduleError("year H: years are not spread; write the years, or *")
    low, high = _range(field, item, matched[1], matched[2])
    digest = hashlib.sha256(f"itinerary-hash-1:{field.label}:{job}".encode("utf-8", "surrogatepass")).digest()
    spread = int.from_bytes(digest[:8], "big")
    if matched[3] is None:
        return str(low + spread % (high - low + 1))
    step = int(matched[3][:5])
    if not 1 <= step <= high - low + 1:
        raise ScheduleError(f"{field.label} {item} has step {step}; write a step of 1 to {high - low + 1}")
    return f"{low + spread % step}-{high}/{step}"


def _range(field: Field, item: str, low_text: str | None, high_text: str | None) -> tuple[int, int]:
    if low_text is None or high_text is None:
        # Every month has a 28th, and Sunday is not counted twice.
        top = {DAY_OF_MONTH: 28, DAY_OF_WEEK: 6}.get(field, field.high)
        return field.low, top
    low, high = int(low_text[:5]), int(high_text[:5])
    if not field.low <= low <= high <= field.high:
        raise ScheduleError(
            f"{field.label} {item} has no valid range; write H(a-b) with {field.low} <= a <= b <= {field.high}"
        )
    return low, high
