"""The tables that every store has. The columns of a table follow from its row type.

A table is a name, a row type and a key. The protocol needs only lookups by key and scans along a key, so a table
declares nothing else. An index is a table of its own, which the ledger maintains (`ACTIVE`, `WAITING`). The migrations
of a SQL store must create exactly these tables, and a test compares them.

`name` is a second key of some tables. With `is_serial`, the store assigns the number in the first column. The name then
identifies the row: creating an occurrence is a race for its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints

import msgspec

from itinerary.model import rows

__all__ = ["ALL", "Column", "R", "Table", "Values"]

R = TypeVar("R", bound=msgspec.Struct)
Values = tuple[Any, ...]
"""A key, a name, or the first values of one: plain values."""


class Column(msgspec.Struct, frozen=True):
    """A column: its plain type, whether it may be missing, and the mapping from stored values to Python values."""

    name: str
    type: type[int] | type[str] | type[bytes] | type[bool]
    is_optional: bool
    decode: Mapping[Any, Any] | None = None


class Table(Generic[R]):
    """A declared table; `row` is the struct that defines its columns."""

    def __init__(
        self,
        title: str,
        row: type[R],
        *,
        key: tuple[str, ...],
        name: tuple[str, ...] = (),
        is_serial: bool = False,
        under: Table[Any] | None = None,
    ) -> None:
        self.title = title
        self.row = row
        self.columns = _columns(row)
        self.names = tuple(column.name for column in self.columns)
        self.key = key
        self.name = name
        self.is_serial = is_serial
        """True if the store assigns the number in the first column."""
        self.under = under
        """The table whose key begins this key, if the rows are deleted with the rows of that table."""
        self.key_of = _picker(key)
        self.keys_of = _many_picker(key)
        self.name_of = _picker(name)
        self.names_of = _many_picker(name)
        self._rows: Any = list[row]  # type: ignore[valid-type]  # known at run time only
        assert not is_serial or key == self.names[:1], "a serial number is the first column, and the key"

    def build(self, stored: Sequence[Values]) -> list[R]:
        """Build rows from their stored values, in the order of the columns.

        Raises:
            msgspec.ValidationError: A value has the wrong type for its column.
        """
        rows: list[R] = msgspec.convert(stored, self._rows, builtin_types=(bytes,))
        return rows

    def __repr__(self) -> str:
        return f"<table {self.title}>"


def _columns(row: type[msgspec.Struct]) -> tuple[Column, ...]:
    hints = get_type_hints(row)
    return tuple(_column(name, hints[name]) for name in row.__struct_fields__)


def _column(name: str, hint: Any) -> Column:
    is_optional = NoneType in get_args(hint)
    if is_optional:
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    plain = getattr(hint, "__supertype__", hint)
    if issubclass(plain, Enum):
        decode: dict[Any, Any] = {member.value: member for member in plain}
        return Column(name, str, is_optional, {**decode, None: None} if is_optional else decode)
    if plain is bool:
        return Column(name, bool, is_optional, {0: False, 1: True})
    return Column(name, plain, is_optional)


def _picker(wanted: tuple[str, ...]) -> Callable[[Any], Values]:
    if len(wanted) == 1:
        pick_one = attrgetter(*wanted)
        return lambda row: (pick_one(row),)
    return attrgetter(*wanted) if wanted else lambda _: ()


def _many_picker(wanted: tuple[str, ...]) -> Callable[[Sequence[Any]], Iterator[Values]]:
    """Return a picker for many rows at once: faster, because it runs no Python code per row."""
    getters = [attrgetter(name) for name in wanted]
    return lambda rows: zip(*[map(getter, rows) for getter in getters], strict=True)


STORE_META: Final = Table("store_meta", rows.StoreMetaRow, key=("one",))
SWEEP: Final = Table("sweep", rows.SweepRow, key=("one",))
NOTIFICATIONS: Final = Table("notifications", rows.NotificationRow, key=("topic",))

JOBS: Final = Table("jobs", rows.JobRow, key=("number",), name=("name",), is_serial=True)
ENTRIES: Final = Table("entries", rows.EntryRow, key=("revision", "line"), name=("job", "request"))
CONFIGS: Final = Table("configs", rows.ConfigRow, key=("number",), name=("digest",), is_serial=True)

OCCURRENCES: Final = Table(
    "occurrences",
    rows.OccurrenceRow,
    key=("ref",),
    name=("instant", "job", "kind", "request"),
    is_serial=True,
)
TASKS: Final = Table("tasks", rows.TaskRow, key=("ref", "place"), under=OCCURRENCES)
ATTEMPTS: Final = Table("attempts", rows.AttemptRow, key=("ref", "place", "number"), under=OCCURRENCES)
TRANSITIONS: Final = Table("transitions", rows.TransitionRow, key=("ref", "sequence", "line"), under=OCCURRENCES)
ACTIVE: Final = Table("active", rows.ActiveRow, key=("job", "ref"))
OVERLAP_QUEUE: Final = Table("overlap_queue", rows.OverlapQueueRow, key=("job", "rank", "instant", "ref"))
WAITING: Final = Table("waiting", rows.WaitingRow, key=("due_at", "ref"))
WINDOWS: Final = Table("windows", rows.WindowRow, key=("end", "ref"))
OVERLAP_SLOTS: Final = Table("overlap_slots", rows.OverlapSlotRow, key=("job",))
HISTORY_CHUNKS: Final = Table("history_chunks", rows.HistoryChunkRow, key=("job", "number"))
LIMITS: Final = Table("limits", rows.LimitRow, key=("name",))
SHARES: Final = Table("shares", rows.ShareRow, key=("name", "ref"))

NODES: Final = Table("nodes", rows.NodeRow, key=("number",), name=("incarnation",), is_serial=True)
MAIL: Final = Table("mail", rows.MailRow, key=("node", "ref"))
STATISTICS: Final = Table("statistics", rows.StatisticsRow, key=("node", "at"))

STREAMS: Final = Table("streams", rows.StreamRow, key=("stream",))
PARTITIONS: Final = Table("partitions", rows.PartitionRow, key=("stream", "partition"))
EVENTS: Final = Table("events", rows.EventRow, key=("stream", "partition", "sequence"), name=("stream", "sequence"))
IDEMPOTENCY_KEYS: Final = Table("idempotency_keys", rows.IdempotencyKeyRow, key=("stream", "cause"))

TOKENS: Final = Table("tokens", rows.TokenRow, key=("name",), name=("hash",))

ALL: Final = tuple(value for value in list(globals().values()) if isinstance(value, Table))
