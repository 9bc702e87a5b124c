"""Where each table's rows are in the tree of keys.

    job/<job>                                                            a job
    job/<job>/occurrence/<ref>                                           one of its occurrences
    job/<job>/occurrence/<ref>/task/<place>/run                          a task of that
    job/<job>/occurrence/<ref>/task/<place>/run/attempt/<number>         a try of that
    job/<job>/occurrence/<ref>/transition/<sequence>/<line>              its audit trail
    ref/<ref>                                                            the job of an occurrence
    name/<table>/<name>                                                  where the row with this name is

These are the keys of D4, with the short numbers that rows are known by in place of the UUIDs that people see, and a
task's place in its job in place of its id. An occurrence with all that belongs to it is one stretch of keys, beside
the others of its job. `job/<id>/task/<id>` has no rows: how a task is defined is part of its job's definition, which
stands on the timeline (`timeline/<revision>/<line>`), once for each version. What is walked across all jobs (what is
active, what waits) lies outside of the jobs, so that a walk does not step over their history.

A row *below an occurrence* is known by the occurrence's number alone, while its key begins with the job. So
`ref/<ref>` says which job that is. It stands as long as anything is below the occurrence.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import msgspec

from itinerary.stores.lmdb.keys import Path
from itinerary.stores.tables import ALL, OCCURRENCES, Table

__all__ = ["COUNTER", "HOME", "MARK", "PLACES", "REF", "Place"]

MARK: Final = b"itinerary"
"""The key of the schema number, by which a store is known as ours."""
COUNTER: Final = b"counter/"
"""Before a table's title: the last number that was given out for its rows, so that none is given out twice."""

_PATHS: Final = {
    "jobs": "job/{number}",
    "entries": "timeline/{revision}/{line}",
    "occurrences": "job/{job}/occurrence/{ref}",
    "tasks": "job/{job}/occurrence/{ref}/task/{place}/run",
    "attempts": "job/{job}/occurrence/{ref}/task/{place}/run/attempt/{number}",
    "transitions": "job/{job}/occurrence/{ref}/transition/{sequence}/{line}",
}
"""The others lie flat, under their own title: `active/{job}/{ref}`."""

HOME: Final = Path(_PATHS["occurrences"], OCCURRENCES)
"""Where an occurrence is: by its job and its number."""
REF: Final = Path("ref/{ref}", OCCURRENCES)
"""Where it says which job that is: by its number alone."""


class Place:
    """Where a table's rows are, and how they are written down."""

    def __init__(self, table: Table[Any]) -> None:
        template = _PATHS.get(table.title) or f"{table.title}/{_fields(table.key)}"
        self.table = table
        self.is_below = table is OCCURRENCES or table.under is OCCURRENCES
        """It begins with an occurrence, whose job has to be looked up; `path` is what comes after that."""
        self.path = Path(template.removeprefix(HOME.template) if self.is_below else template, table)
        self.job_of: Callable[[Any], int] | None = attrgetter("job") if table is OCCURRENCES else None
        """Its rows are the occurrences themselves: they decide where their home is."""
        self.names = _names(table)
        self.encode = msgspec.msgpack.Encoder().encode
        self.decode = msgspec.msgpack.Decoder(table.row).decode
        fields = table.key[1:] if self.is_below else table.key
        assert self.path.fields == fields, f"the path of {table.title} is not in the order of its key"


def _names(table: Table[Any]) -> Path | None:
    return Path(f"name/{table.title}/{_fields(table.name)}", table) if table.name else None


def _fields(columns: tuple[str, ...]) -> str:
    return "/".join(f"{{{column}}}" for column in columns)


PLACES: Final = {table.title: Place(table) for table in ALL}
