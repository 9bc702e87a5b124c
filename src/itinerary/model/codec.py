"""JSON encoding of records and results, and decoding of records: the only form in which they leave the process.

Records that this program wrote are read back exactly. Data that is foreign, newer or damaged is refused with the place
of the error. Nothing is guessed and nothing is dropped silently.
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
"""The size that a returned value must stay below, in bytes of JSON (X10)."""

Record = TypeVar("Record", bound=msgspec.Struct)

_ENCODER: Final = msgspec.json.Encoder()
_ENCODED_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def to_json(record: msgspec.Struct) -> bytes:
    """Return the record as JSON, in UTF-8."""
    return _ENCODER.encode(record)


def from_json(kind: type[Record], data: bytes | str) -> Record:
    """Read a record from JSON.

    Raises:
        RecordError: The data is not such a record. The message names the place of the error.
    """
    try:
        record: Record = _decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"this is not a stored {kind.__name__}: {clean_text(str(error), 300)}") from error
    return record


@cache
def _decoder(kind: type[Record]) -> msgspec.json.Decoder[Record]:
    return msgspec.json.Decoder(kind)


def result_json(value: object) -> str:
    """Encode a returned value as the JSON that its task run stores.

    The cost is bounded by RESULT_MAX and not by the value: a value that is too large is refused before it is encoded.

    Raises:
        RecordError: The value is not JSON or is too large. The task has still succeeded.
    """
    try:
        if (size := json_size_at_least(value, RESULT_MAX)) >= RESULT_MAX:
            raise RecordError(f"the returned value is at least {size} bytes of JSON; it must be under {RESULT_MAX}")
    except TooDeep:
        raise RecordError(
            f"the returned value is not JSON: it is nested more than {DEPTH_MAX} deep, or contains itself"
        ) from None
    except RuntimeError as error:  # another thread changes a dict or a set
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
