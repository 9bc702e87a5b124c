"""The kinds of events, as typed values (E2): what producers say, and what the desk itself says.

    said by producers                                     said by the desk
    RecordCreated(data)                        ──►        RecordQueued(batch, retry, times)
    CallbackScheduled(target_time)             ──►        RecordQueued(…, retry)
    VerificationScheduled(check_time, kind)    ──►        VerificationTriggered, then VerificationCompleted(result)
    RecordCompleted(final_status)                         RecordPickedUp(batch, attempt), BatchAcknowledged(batch)

Each is about one record, but for the last. In the log a kind is a word and its fields are JSON; instants in it are
microseconds since the epoch. Whatever comes from outside is checked here, before it is written: what stands in the log
stands there for good.

**Causes.** An event of the desk has a cause that is made of what brought it about, and of nothing else: the record, and
the callback or verification that was due. Whoever decides the same thing again, after a crash or with another fence,
comes to the same cause, and the log takes it once. What a producer sends has the key that it was sent with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from itinerary.errors import IdentityError, RecordError, WindowError
from itinerary.model.events import NewEvent
from itinerary.model.json_size import TooDeep, json_size_at_least
from itinerary.model.rows import EventRow
from itinerary.model.text import check_name, shown
from itinerary.schedules.instants import EARLIEST, LATEST, MICROSECONDS, microseconds_of

__all__ = [
    "ANY_CHECK",
    "DATA_MAX",
    "BatchAcknowledged",
    "CallbackScheduled",
    "Fields",
    "RecordCompleted",
    "RecordCreated",
    "RecordPickedUp",
    "RecordQueued",
    "VerificationCompleted",
    "VerificationScheduled",
    "VerificationTriggered",
    "acknowledged",
    "callback_queued",
    "check_verification",
    "fields_of",
    "first_queued",
    "kind_of",
    "picked_up",
    "produced",
    "read_fields",
    "shown_fields",
    "triggered",
    "verified",
]

DATA_MAX: Final = 256 * 1024
"""The longest that one event may be, in bytes of JSON (Q4)."""
ANY_CHECK: Final = "check"
"""The kind of a verification that does not say which one it is."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The character that PostgreSQL does not take, as it is written in JSON."""
_TIMES: Final = frozenset({"target_time", "check_time"})


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an event says, besides which record it is about."""


class RecordCreated(Fields, frozen=True):
    """There is a record, with this data. It is queued once, however often it is said."""

    data: Any = None


class CallbackScheduled(Fields, frozen=True):
    """A record wants to be queued again at a time. Said twice for the same time it is one callback."""

    target_time: int


class VerificationScheduled(Fields, frozen=True):
    """A record wants to be verified at a time, by the handler of that kind."""

    check_time: int
    verification: str = ANY_CHECK


class RecordCompleted(Fields, frozen=True):
    """A record is done with: it never comes back."""

    final_status: str | None = None


class RecordQueued(Fields, frozen=True):
    """A record stands in the queue, in a batch: for the first time, or because its callback was due."""

    batch: str
    retry: bool = False
    times: int = 1
    """How often it has been queued, this time included."""
    target_time: int | None = None
    """That of the callback."""


class RecordPickedUp(Fields, frozen=True):
    """A handler has taken the batch that the record is in."""

    batch: str
    attempt: int = 1


class BatchAcknowledged(Fields, frozen=True):
    """A handler is done with a batch: it does not come back."""

    batch: str


class VerificationTriggered(Fields, frozen=True):
    """A verification was due, and goes to its handler."""

    check_time: int
    verification: str = ANY_CHECK


class VerificationCompleted(Fields, frozen=True):
    """What the handler of a verification returned."""

    check_time: int
    verification: str = ANY_CHECK
    result: Any = None


Produced: TypeAlias = RecordCreated | CallbackScheduled | VerificationScheduled | RecordCompleted
F = TypeVar("F", bound=Fields)

_PRODUCED: Final[Mapping[str, type[Fields]]] = {
    kind.__name__: kind for kind in (RecordCreated, CallbackScheduled, VerificationScheduled, RecordCompleted)
}
_OWN: Final[Mapping[str, type[Fields]]] = {
    kind.__name__: kind
    for kind in (RecordQueued, RecordPickedUp, BatchAcknowledged, VerificationTriggered, VerificationCompleted)
}
_DECODERS: Final = {name: msgspec.json.Decoder(kind, strict=True) for name, kind in {**_PRODUCED, **_OWN}.items()}
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def kind_of(name: str) -> type[Fields] | None:
    """The fields of a kind; None: nobody here knows it."""
    return _PRODUCED.get(name) or _OWN.get(name)


# -- what producers say ------------------------------------------------------------------------------------------------


def produced(kind: str, record: str, fields: Mapping[str, object], key: str, by: str | None = None) -> NewEvent:
    """An event as a producer has written it, checked. Times are aware datetimes or microseconds. `by`: who appends it,
    where that is no program."""
    shape = _PRODUCED.get(kind)
    if shape is None:
        why = "is written by the desk itself" if kind in _OWN else "is no kind of event"
        raise RecordError(f"{shown(kind)} {why}; append one of {', '.join(_PRODUCED)}")
    try:
        check_name("record", record)
        check_name("key", key)
    except IdentityError as error:
        raise RecordError(f"{kind}: {error}") from error
    given = {name: _instant(kind, name, value) if name in _TIMES else value for name, value in fields.items()}
    if (size := _size_at_least(given)) > DATA_MAX:
        raise RecordError(
            f"{kind} of record {shown(record)}: at least {size} bytes of JSON, {DATA_MAX} are allowed; "
            "keep the rest elsewhere, and its address here"
        )
    try:
        said = msgspec.convert(given, shape, strict=True)
        data = _ENCODER.encode(said)
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
        takes = ", ".join(shape.__struct_fields__)
        raise RecordError(f"{kind} of record {shown(record)}: {error}; it takes {takes}") from error
    if len(data) > DATA_MAX:
        raise RecordError(
            f"{kind} of record {shown(record)}: {len(data)} bytes of JSON, {DATA_MAX} are allowed; "
            "keep the rest elsewhere, and its address here"
        )
    if _NUL.search(data):
        raise RecordError(f"{kind} of record {shown(record)}: its text has the character U+0000; leave that out")
    if isinstance(said, VerificationScheduled):
        check_verification(said.verification)
    return NewEvent(kind=kind, record=record, cause=f"key/{key}", data=data.decode(), by=by)


def check_verification(name: str) -> str:
    """The kind of a verification, if it can be one: it is part of a cause."""
    try:
        check_name("verification", name)
    except IdentityError as error:
        raise RecordError(str(error)) from error
    if "/" in name:
        raise RecordError(f"verification {shown(name)} has a '/'; call it without")
    return name


def _instant(kind: str, name: str, value: object) -> int:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise RecordError(f"{kind}: {name}: {shown(value)} is no time; write 2026-03-01T09:00:00Z") from error
    if isinstance(value, bool) or not isinstance(value, datetime | int):
        raise RecordError(f"{kind}: {name}: {shown(value)} is no time; give an aware datetime")
    try:
        at = microseconds_of(value)
    except WindowError as error:
        raise RecordError(f"{kind}: {name}: {error}") from error
    if not EARLIEST <= at // MICROSECONDS < LATEST:
        raise RecordError(f"{kind}: {name}: {shown(value)} lies outside the supported years 1900 to 2199")
    return at


# -- what the desk says ------------------------------------------------------------------------------------------------


def first_queued(record: str, batch: str) -> NewEvent:
    """A record that is new goes to the queue."""
    return _own(record, f"queued/{record}", RecordQueued(batch))


def callback_queued(record: str, batch: str, times: int, target_time: int) -> NewEvent:
    """A record goes to the queue again, since its callback is due."""
    fields = RecordQueued(batch, retry=True, times=times, target_time=target_time)
    return _own(record, f"requeued/{target_time}/{record}", fields)


def picked_up(record: str, batch: str, attempt: int) -> NewEvent:
    """A handler takes a record, with the batch that it is in."""
    return _own(record, f"picked/{attempt}/{batch}/{record}", RecordPickedUp(batch, attempt))


def acknowledged(batch: str) -> NewEvent:
    """A handler is done with a batch. It is about no single record."""
    return _own("", f"acknowledged/{batch}", BatchAcknowledged(batch))


def triggered(record: str, check_time: int, verification: str) -> NewEvent:
    """A verification is due."""
    cause = f"triggered/{check_time}/{verification}/{record}"
    return _own(record, cause, VerificationTriggered(check_time, verification))


def verified(record: str, check_time: int, verification: str, result: object) -> NewEvent:
    """A verification is done. Raises RecordError if its result cannot be kept."""
    cause = f"verified/{check_time}/{verification}/{record}"
    if (size := _size_at_least(result)) > DATA_MAX:
        raise RecordError(
            f"verification {verification!r} of record {shown(record)} returned at least {size} bytes of JSON; "
            f"{DATA_MAX} are allowed"
        )
    try:
        event = _own(record, cause, VerificationCompleted(check_time, verification, result))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordError(
            f"verification {verification!r} of record {shown(record)} returned {shown(result)}, which is not JSON: "
            f"{error}"
        ) from error
    if event.data is not None and (len(event.data) > DATA_MAX or _NUL.search(event.data.encode())):
        raise RecordError(
            f"verification {verification!r} of record {shown(record)} returned {len(event.data)} characters of JSON; "
            f"{DATA_MAX} are allowed, and U+0000 is not"
        )
    return event


def _size_at_least(value: object) -> int:
    """Measure before encoding: the encoder holds the whole process up while it writes a gigabyte."""
    try:
        return json_size_at_least(value, DATA_MAX + 1)
    except (TooDeep, RuntimeError):
        return 0  # the encoder refuses it, and says why


def _own(record: str, cause: str, fields: Fields) -> NewEvent:
    kind = type(fields).__name__
    return NewEvent(kind=kind, record=record, cause=cause, data=_ENCODER.encode(fields).decode())


# -- reading -----------------------------------------------------------------------------------------------------------


def read_fields(row: EventRow) -> Any:
    """What an event of the log says; None if it is of a kind that nobody here knows. Any: the kind says which."""
    decoder = _DECODERS.get(row.kind)
    if decoder is None:
        return None
    try:
        return decoder.decode(row.data or "{}")
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RecordError(
            f"event {row.sequence} of {row.stream}, {row.kind} of {shown(row.record)}: {error}"
        ) from error


def fields_of(event: NewEvent) -> Any:
    """What an event of our own says. Any: its kind says which."""
    return _DECODERS[event.kind].decode(event.data or "{}")


def shown_fields(row: EventRow) -> dict[str, Any]:
    """What an event says, as people are told it: times are datetimes."""
    try:
        said = msgspec.json.decode(row.data or "{}")
    except (msgspec.DecodeError, UnicodeError):
        return {"unreadable": row.data}
    if not isinstance(said, dict):
        return {"unreadable": row.data}
    return {
        name: _EPOCH + timedelta(microseconds=value) if name in _TIMES and isinstance(value, int) else value
        for name, value in said.items()
    }
