"""The place of each table in the tree of keys.

    job/<job>                                                            a job
    job/<job>/occurrence/<ref>                                           an occurrence of the job
    job/<job>/occurrence/<ref>/task/<place>/run                          a task of the occurrence
    job/<job>/occurrence/<ref>/task/<place>/run/attempt/<number>         an attempt of the task
    job/<job>/occurrence/<ref>/transition/<sequence>/<line>              the audit trail of the occurrence
    ref/<ref>                                                            the job of an occurrence
    name/<table>/<name>                                                  the key of the row with this name

The keys follow D4. Short row numbers replace the UUIDs that users see, and the position of a task in its job replaces
its id. An occurrence and its rows are one range of keys, next to the other occurrences of the job. `job/<id>/task/<id>`
has no rows: a task is defined in the definition of its job, which is on the timeline (`timeline/<revision>/<line>`),
once for each version. Tables that are scanned across all jobs (active, waiting) are outside of the jobs, so that a scan
does not pass their history.

A row *below an occurrence* is identified by the number of the occurrence alone, but its key begins with the job. So
`ref/<ref>` stores the job. That key exists as long as there is a row below the occurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import msgspec

from itinerary.stores.lmdb.keys import Path
from itinerary.stores.tables import ALL, OCCURRENCES, Table

__all__ = ["COUNTER", "HOME", "MARK", "PLACES", "REF", "TablePlace"]

MARK: Final = b"itinerary"
"""The key of the schema number, which marks a store as ours."""
COUNTER: Final = b"counter/"
"""The prefix before a table title: the last assigned number of its rows, so that no number is assigned twice."""

_PATHS: Final = {
    "jobs": "job/{number}",
    "entries": "timeline/{revision}/{line}",
    "occurrences": "job/{job}/occurrence/{ref}",
    "tasks": "job/{job}/occurrence/{ref}/task/{place}/run",
    "attempts": "job/{job}/occurrence/{ref}/task/{place}/run/attempt/{number}",
    "transitions": "job/{job}/occurrence/{ref}/transition/{sequence}/{line}",
}
"""The other tables are flat, under their own title: `active/{job}/{ref}`."""

HOME: Final = Path(_PATHS["occurrences"], OCCURRENCES)
"""The key of an occurrence, by its job and its number."""
REF: Final = Path("ref/{ref}", OCCURRENCES)
"""The key that stores the job of an occurrence, by its number alone."""


class TablePlace:
    """The place of a table's rows, and their encoding."""

    def __init__(self, table: Table[Any]) -> None:
        template = _PATHS.get(table.title) or f"{table.title}/{_fields(table.key)}"
        self.table = table
        self.is_below = table is OCCURRENCES or table.under is OCCURRENCES
        """True if the key begins with an occurrence, whose job must be looked up; `path` is the rest of the key."""
        self.path = Path(template.removeprefix(HOME.template) if self.is_below else template, table)
        self.job_of: Callable[[Any], int] | None = attrgetter("job") if table is OCCURRENCES else None
        """Set for the occurrences themselves: their rows determine their home."""
        self.names = _names(table)
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(table.row).decode
        fields = table.key[1:] if self.is_below else table.key
        assert self.path.fields == fields, f"the path of {table.title} is not in the order of its key"


def _names(table: Table[Any]) -> Path | None:
    return Path(f"name/{table.title}/{_fields(table.name)}", table) if table.name else None


def _fields(columns: tuple[str, ...]) -> str:
    return "/".join(f"{{{column}}}" for column in columns)


PLACES: Final = {table.title: TablePlace(table) for table in ALL}
