"""Lookup of the job or occurrence that an address names.

    /jobs/etl                    a job by its name
    /jobs/<uuid>                 a job by its id: a name may be any text, and not every text can be in an address
    /runs/1234                   an occurrence by its number in the store
    /runs/etl:1767225600         a run id (of a replay, etl:1767225600.replay-1): redirects to the number
    /runs/<uuid>                 an id: redirects to the number

All lookups here are fast, however many jobs there are. An id may be anywhere in the history, so a worker process
searches for it (see `heavy`), and its number is looked up here.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from itinerary.errors import NotFoundError
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import JobRow, OccurrenceRow, Ref
from itinerary.model.text import shown
from itinerary.read.run_lookup import row_of_run_id
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web.server_state import ServerState

__all__ = ["job_called", "number_called", "row_of"]

_DIGITS_MAX: Final = 18


def job_called(server: ServerState, snapshot: StoreSnapshot, called: str) -> JobRow:
    """Look up the job that an address names. Raises NotFoundError."""
    found = server.job_of_name(called, snapshot.timeline)
    if found is None and (identity := _as_id(called)) is not None:
        found = server.job_of_id(identity, snapshot.timeline)
    if found is None:
        raise NotFoundError(f"there is no job {shown(called)} here; it may have another name, or be in another store")
    return found


async def row_of(snapshot: StoreSnapshot, called: str) -> OccurrenceRow:
    """Look up an occurrence by its number. Raises NotFoundError."""
    number = Ref(int(called)) if _is_number(called) else Ref(-1)
    row = (await snapshot.store.read(ByRefQuery((number,)))).get(number)
    if row is None or row.job not in snapshot.timeline.jobs:  # its job may be newer than this snapshot
        raise NotFoundError(f"there is no occurrence {shown(called)} here, or it is no longer kept")
    return row


async def number_called(server: ServerState, snapshot: StoreSnapshot, called: str) -> Ref:
    """Return the number of an occurrence that is named by its number or a run id. Raises NotFoundError."""
    if _is_number(called):
        return Ref(int(called))
    found = await _by_run_id(server, snapshot, called)
    if found is None:
        raise NotFoundError(
            f"there is no occurrence {shown(called)} here, or it is no longer kept; "
            "give its number, its id, or a run id such as etl:1767225600"
        )
    return found


def _is_number(called: str) -> bool:
    return called.isascii() and called.isdigit() and len(called) <= _DIGITS_MAX


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _by_run_id(server: ServerState, snapshot: StoreSnapshot, called: str) -> Ref | None:
    name = called.rpartition(":")[0]
    job = server.job_of_name(name, snapshot.timeline)
    row = None if job is None else await row_of_run_id(snapshot.store.read, name, job.number, called)
    return None if row is None else row.ref
