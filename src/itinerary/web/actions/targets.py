"""Targets of actions: a job, an occurrence, or a backfill."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import UUID

import msgspec

from itinerary.errors import ItineraryError, NotFoundError
from itinerary.model.ids import job_id
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import JobRow, Ref
from itinerary.model.text import shown
from itinerary.read.runs import RunView, run_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web.pages.filters import job_url, run_url
from itinerary.web.server_state import ServerState

__all__ = ["Subject", "backfill_address", "find_backfill", "find_job", "find_run"]

_DIGITS_MAX: Final = 18


class Subject(msgspec.Struct, frozen=True):
    """A job, an occurrence of it, or a backfill of it."""

    job: JobRow
    run: RunView | None = None
    backfill: str | None = None
    """The key of the backfill."""

    @property
    def key(self) -> str:
        """The id of the target in the address of an action: safe, whatever characters its name has."""
        if self.run is not None:
            return str(self.run.number)
        return str(job_id(self.job.name)) if self.backfill is None else self.backfill

    @property
    def name(self) -> str:
        """The name that users know."""
        return self.job.name if self.run is None else self.run.run

    @property
    def address(self) -> str:
        """The address of the target's page."""
        if self.run is not None:
            return run_url(self.run.number)
        return job_url(self.job.name) if self.backfill is None else backfill_address(self.backfill)

    def tasks(self, snapshot: StoreSnapshot) -> list[str]:
        """Return the task names of the occurrence's version; none if the definition cannot be read."""
        if self.run is None:
            return []
        try:
            tasks = snapshot.timeline.definition(self.job.number, self.run.version).tasks
        except ItineraryError:
            return []
        return [task.name for task in sorted(tasks, key=lambda task: task.order)]


def backfill_address(key: str) -> str:
    """Return the address of a backfill's page."""
    return f"/backfills/{key}"


def find_backfill(server: ServerState, snapshot: StoreSnapshot, key: str) -> Subject:
    """Look up a backfill that this web server runs. Raises NotFoundError."""
    seen = server.backfills.seen(key)
    if seen is None:
        raise NotFoundError(
            "this node knows of no such backfill: it was another's, or the node was started again since"
        )
    return Subject(find_job(server, snapshot, seen.far.job).job, backfill=key)


def find_job(server: ServerState, snapshot: StoreSnapshot, wanted: str) -> Subject:
    """Look up a job by id, otherwise by name. Raises NotFoundError."""
    found = None
    with suppress(ValueError):
        found = server.job_of_id(UUID(wanted), snapshot.timeline)
    found = found or server.job_of_name(wanted, snapshot.timeline)
    if found is None:  # no suggestion of a similar name: with very many jobs, the search takes seconds
        raise NotFoundError(f"there is no job {shown(wanted)} in the store")
    return Subject(found)


async def find_run(snapshot: StoreSnapshot, wanted: str) -> Subject:
    """Look up an occurrence by its number. Raises NotFoundError."""
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= _DIGITS_MAX):
        raise NotFoundError("an occurrence is named by its number here; open its page and act from there")
    ref = Ref(int(wanted))
    row = (await snapshot.store.read(ByRefQuery((ref,)))).get(ref)
    if row is None:
        raise NotFoundError(f"there is no occurrence with the number {ref} in the store, or it is no longer kept")
    job = snapshot.timeline.jobs[row.job]
    return Subject(job, run_seen(row, job, {}))
