"""Records and results to JSON, and records back: the one form in which they leave the process.

What was written by this program is read back exactly. What was not, or was written by a newer one, or was damaged, is
refused with the place in it that is wrong; nothing is guessed and nothing is dropped in silence.
"""

import re
from functools import cache
from typing import Final, TypeVar

import msgspec

from itinerary.errors import RecordError
from itinerary.model.json_size import DEPTH_MAX, TooDeep, json_size_at_least
from itinerary.model.text import clean_text

__all__ = ["RESULT_MAX", "from_json", "result_json", "to_json"]

RESULT_MAX: Final = 65_536
"""What a task returns must be shorter than this, in bytes of JSON (X10)."""

Record = TypeVar("Record", bound=msgspec.Struct)

_ENCODER: Final = msgspec.json.Encoder()
_ENCODED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def to_json(record: msgspec.Struct) -> bytes:
    """The record as JSON, in UTF-8."""
    return _ENCODER.encode(record)


def from_json(kind: type[Record], data: bytes | str) -> Record:
    """The record of that kind in a piece of JSON. Raises RecordError, which names the place that is wrong."""
    try:
        record: Record = _decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"this is not a stored {kind.__name__}: {clean_text(str(error), 300)}") from error
    return record


@cache
def _decoder(kind: type[Record]) -> msgspec.json.Decoder[Record]:
    return msgspec.json.Decoder(kind)


def result_json(value: object) -> str:
    """What a task returned, as the JSON that its task run keeps.

    Raises RecordError, which says why, if it is not JSON or is too large: the task has succeeded all the same. The cost
    is bounded by RESULT_MAX and not by the value: what is too large is refused before it is encoded.
    """
    try:
        if (size := json_size_at_least(value, RESULT_MAX)) >= RESULT_MAX:
            raise RecordError(f"the returned value is at least {size} bytes of JSON; it must be under {RESULT_MAX}")
    except TooDeep:
        raise RecordError(
            f"the returned value is not JSON: it is nested more than {DEPTH_MAX} deep, or contains itself"
        ) from None
    except RuntimeError as error:  # a dict or a set that another thread changes
        raise RecordError(f"the returned value is not JSON: {clean_text(str(error), 200)}") from error
    try:
        encoded = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise RecordError(f"the returned value is not JSON: {clean_text(str(error), 200)}") from error
    if len(encoded) >= RESULT_MAX:
        raise RecordError(f"the returned value is {len(encoded)} bytes of JSON; it must be under {RESULT_MAX}")
    if _ENCODED_NUL.search(encoded):
        raise RecordError("the returned value has a NUL character in it, which stores cannot keep")
    return encoded.decode()
