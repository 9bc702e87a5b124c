"""The types of events (E2): those that producers append, and those that the record scheduler appends.

    from producers                                        from the record scheduler
    RecordCreated(data)                        ──►        RecordQueued(batch, retry, times)
    CallbackScheduled(target_time)             ──►        RecordQueued(…, retry)
    VerificationScheduled(check_time, kind)    ──►        VerificationTriggered, then VerificationCompleted(result)
    RecordCompleted(final_status)                         RecordPickedUp(batch, attempt), BatchAcknowledged(batch)

Every event except the last is about one record. In the log, a kind is a word and its fields are JSON. Instants are
microseconds since the epoch. Events from outside are checked here before the write, since the log is permanent.

**Causes.** The cause of an event of the record scheduler consists only of its origin: the record, and the callback or
verification that was due. The same decision, made again after a crash or with another fence, has the same cause, and
the log stores it once. The cause of a producer's event is the key that the producer sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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
    "picked_up",
    "produced",
    "read_fields",
    "shown_fields",
    "triggered",
    "verified",
]

DATA_MAX: Final = 256 * 1024
"""The maximum length of one event, in bytes of JSON (Q4)."""
ANY_CHECK: Final = "check"
"""The kind of a verification that names no kind."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""The character U+0000 as JSON writes it. PostgreSQL does not accept it."""
_TIMES: Final = frozenset({"target_time", "check_time"})


class Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The fields of an event, besides the record that it is about."""


class RecordCreated(Fields, frozen=True):
    """A record was created with this data. A record is queued once, also if this event is repeated."""

    data: Any = None


class CallbackScheduled(Fields, frozen=True):
    """A record is to be queued again at a time. Two such events for the same time are one callback."""

    target_time: int


class VerificationScheduled(Fields, frozen=True):
    """A record is to be verified at a time, by the handler of that kind."""

    check_time: int
    verification: str = ANY_CHECK


class RecordCompleted(Fields, frozen=True):
    """A record is completed and is never queued again."""

    final_status: str | None = None


class RecordQueued(Fields, frozen=True):
    """A record was queued in a batch: for the first time, or because a callback was due."""

    batch: str
    retry: bool = False
    times: int = 1
    """The number of times the record was queued, including this time."""
    target_time: int | None = None
    """The time of the callback."""


class RecordPickedUp(Fields, frozen=True):
    """A handler has received the batch of the record."""

    batch: str
    attempt: int = 1


class BatchAcknowledged(Fields, frozen=True):
    """A handler has finished a batch, which is not delivered again."""

    batch: str


class VerificationTriggered(Fields, frozen=True):
    """A verification was due and goes to its handler."""

    check_time: int
    verification: str = ANY_CHECK


class VerificationCompleted(Fields, frozen=True):
    """The result that the handler of a verification returned."""

    check_time: int
    verification: str = ANY_CHECK
    result: Any = None


_PRODUCED: Final[Mapping[str, type[Fields]]] = {
    kind.__name__: kind for kind in (RecordCreated, CallbackScheduled, VerificationScheduled, RecordCompleted)
}
_OWN: Final[Mapping[str, type[Fields]]] = {
    kind.__name__: kind
    for kind in (RecordQueued, RecordPickedUp, BatchAcknowledged, VerificationTriggered, VerificationCompleted)
}
_DECODERS: Final = {name: msgspec.json.Decoder(kind, strict=True) for name, kind in {**_PRODUCED, **_OWN}.items()}
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


# -- events from producers ---------------------------------------------------------------------------------------------


def produced(kind: str, record: str, fields: Mapping[str, object], key: str, by: str | None = None) -> NewEvent:
    """Return a producer's event after checking it.

    Args:
        kind: The kind of the event.
        record: The name of the record.
        fields: The fields of that kind. Times are aware datetimes, ISO 8601 texts or microseconds.
        key: The idempotency key.
        by: The token or user that appends the event; None for a program.

    Raises:
        RecordError: The kind, a name or a field is not allowed, or the event is too long.
    """
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
    """Return the name of a verification kind, which becomes part of a cause. Raise RecordError if not allowed."""
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


# -- events from the record scheduler ----------------------------------------------------------------------------------


def first_queued(record: str, batch: str) -> NewEvent:
    """Return the event that queues a new record."""
    return _own(record, f"queued/{record}", RecordQueued(batch))


def callback_queued(record: str, batch: str, times: int, target_time: int) -> NewEvent:
    """Return the event that queues a record again because a callback is due."""
    fields = RecordQueued(batch, retry=True, times=times, target_time=target_time)
    return _own(record, f"requeued/{target_time}/{record}", fields)


def picked_up(record: str, batch: str, attempt: int) -> NewEvent:
    """Return the event that a handler receives a record with its batch."""
    return _own(record, f"picked/{attempt}/{batch}/{record}", RecordPickedUp(batch, attempt))


def acknowledged(batch: str) -> NewEvent:
    """Return the event that a handler has finished a batch. The event names no record."""
    return _own("", f"acknowledged/{batch}", BatchAcknowledged(batch))


def triggered(record: str, check_time: int, verification: str) -> NewEvent:
    """Return the event that a verification is due."""
    cause = f"triggered/{check_time}/{verification}/{record}"
    return _own(record, cause, VerificationTriggered(check_time, verification))


def verified(record: str, check_time: int, verification: str, result: object) -> NewEvent:
    """Return the event that a verification is finished.

    Raises:
        RecordError: The result is not JSON or is too long.
    """
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
    """Return a lower bound of the JSON size. Encoding a gigabyte would block the whole process."""
    try:
        return json_size_at_least(value, DATA_MAX + 1)
    except (TooDeep, RuntimeError):
        return 0  # the encoder refuses the value with its own error


def _own(record: str, cause: str, fields: Fields) -> NewEvent:
    kind = type(fields).__name__
    return NewEvent(kind=kind, record=record, cause=cause, data=_ENCODER.encode(fields).decode())


# -- reading -----------------------------------------------------------------------------------------------------------


def read_fields(row: EventRow) -> Any:
    """Return the fields of an event in the log; None if its kind is unknown. The kind determines the type."""
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
    """Return the fields of a new event of the record scheduler. The kind determines the type."""
    return _DECODERS[event.kind].decode(event.data or "{}")


def shown_fields(row: EventRow) -> dict[str, Any]:
    """Return the fields of an event for people: times are datetimes."""
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
