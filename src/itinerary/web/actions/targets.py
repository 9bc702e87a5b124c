"""Targets of actions: a job, an occurrence, or a backfill."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import UUID

import msgspec

from itinerary.errors import ItineraryError, NotThere
from itinerary.model.ids import job_id
from itinerary.model.queries import ByRef
from itinerary.model.rows import JobRow, Ref
from itinerary.model.text import shown
from itinerary.read.runs import RunSeen, run_seen
from itinerary.read.snapshot import Ground
from itinerary.web.pages.filters import job_url, run_url
from itinerary.web.server_state import House

__all__ = ["Subject", "backfill_address", "find_backfill", "find_job", "find_run"]

_DIGITS_MAX: Final = 18


class Subject(msgspec.Struct, frozen=True):
    """A job, an occurrence of it, or a backfill of it."""

    job: JobRow
    run: RunSeen | None = None
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

    def tasks(self, ground: Ground) -> list[str]:
        """Return the task names of the occurrence's version; none if the definition cannot be read."""
        if self.run is None:
            return []
        try:
            tasks = ground.timeline.definition(self.job.number, self.run.version).tasks
        except ItineraryError:
            return []
        return [task.name for task in sorted(tasks, key=lambda task: task.order)]


def backfill_address(key: str) -> str:
    """Return the address of a backfill's page."""
    return f"/backfills/{key}"


def find_backfill(house: House, ground: Ground, key: str) -> Subject:
    """Look up a backfill that this web server runs. Raises NotThere."""
    seen = house.backfills.seen(key)
    if seen is None:
        raise NotThere("this node knows of no such backfill: it was another's, or the node was started again since")
    return Subject(find_job(house, ground, seen.far.job).job, backfill=key)


def find_job(house: House, ground: Ground, wanted: str) -> Subject:
    """Look up a job by id, otherwise by name. Raises NotThere."""
    found = None
    with suppress(ValueError):
        found = house.job_of_id(UUID(wanted), ground.timeline)
    found = found or house.job_of_name(wanted, ground.timeline)
    if found is None:  # no suggestion of a similar name: with very many jobs, the search takes seconds
        raise NotThere(f"there is no job {shown(wanted)} in the store")
    return Subject(found)


async def find_run(ground: Ground, wanted: str) -> Subject:
    """Look up an occurrence by its number. Raises NotThere."""
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= _DIGITS_MAX):
        raise NotThere("an occurrence is named by its number here; open its page and act from there")
    ref = Ref(int(wanted))
    row = (await ground.store.read(ByRef((ref,)))).get(ref)
    if row is None:
        raise NotThere(f"there is no occurrence with the number {ref} in the store, or it is no longer kept")
    job = ground.timeline.jobs[row.job]
    return Subject(job, run_seen(row, job, {}))
