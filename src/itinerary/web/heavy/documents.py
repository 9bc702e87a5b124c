"""Transfer of a job file from a worker process to the web server: MessagePack, which keeps what JSON cannot.

TOML has dates and times. MessagePack carries them as extensions, so the web server receives exactly the values that
`tomllib` has read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from itinerary.jobs.job_file.document import Document
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.web.problems import RequestRefused

__all__ = ["SENT_FILE", "pack_document", "unpack_document"]

SENT_FILE: Final = "file"
"""The name of a request's file in errors: its key in the body."""
_KINDS: Final[tuple[type[datetime | date | time], ...]] = (datetime, date, time)
"""The index of a type is its extension number. A datetime is also a date, so it comes first."""
_READERS: Final[tuple[Callable[[str], object], ...]] = (
    datetime.fromisoformat,
    date.fromisoformat,
    time.fromisoformat,
)


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    table: dict[str, Any]
    lines: list[tuple[Path, int]]


def pack_document(document: Document) -> bytes:
    """Encode a document. Raises Refused for a number that is too large."""
    packed = _Packed(_packed(document.table), list(document.lines.items()))
    try:
        return msgspec.msgpack.encode(packed)
    except OverflowError as error:
        raise RequestRefused(
            400, "Bad request", "file: a whole number has more than 64 bits; give a smaller one"
        ) from error


def unpack_document(content: bytes) -> Document:
    """Decode a document that `pack_document` encoded."""
    packed = msgspec.msgpack.decode(content, type=_Packed, ext_hook=_from_extension)
    return Document(SENT_FILE, packed.table, dict(packed.lines))


def _packed(value: Any) -> Any:
    match value:
        case dict():
            return {key: _packed(one) for key, one in value.items()}
        case list():
            return [_packed(one) for one in value]
        case datetime() | date() | time():
            number = next(place for place, kind in enumerate(_KINDS) if isinstance(value, kind))
            return Ext(number, value.isoformat().encode())
        case _:
            return value


def _from_extension(number: int, content: memoryview) -> object:
    return _READERS[number](bytes(content).decode())
