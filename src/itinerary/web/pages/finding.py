"""Which job, and which occurrence, an address means.

    /jobs/etl                    a job by its name
    /jobs/<uuid>                 a job by its id: its name may be any text, and not every text can be in an address
    /runs/1234                   an occurrence by its number in the store
    /runs/etl:1767225600         the run id of a scheduled one, and
    /runs/<uuid>                 an id, lead there; an id is a hash, so only what is active or was due lately is found

Nothing here takes long, however many jobs there are, and whatever is asked for.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from itinerary.app.looking.ground import Ground
from itinerary.errors import NotThere
from itinerary.model.ids import job_id
from itinerary.model.occurrence import Kind
from itinerary.model.queries import Active, ByKey, ByRef, Decided
from itinerary.model.rows import JobRow, Key, OccurrenceRow, Ref
from itinerary.model.text import shown
from itinerary.schedules.durations import SECOND
from itinerary.web.house import House

__all__ = ["job_called", "number_called", "row_of"]

_DIGITS_MAX: Final = 18
_SECONDS_DIGITS_MAX: Final = 12
_LOOKED_BACK: Final = tuple(seconds * SECOND for seconds in (60, 3_600, 86_400, 7 * 86_400))
_LOOKED_AT_MAX: Final = 4_000
"""How many ids are made in a step, of which each takes some microseconds."""


def job_called(house: House, ground: Ground, called: str) -> JobRow:
    """The job that an address names. Raises NotThere."""
    found = house.job_of_name(called, ground.timeline)
    if found is None and (identity := _as_id(called)) is not None:
        found = house.job_of_id(identity, ground.timeline)
    if found is None:
        raise NotThere(f"there is no job {shown(called)} here; it may have another name, or be in another store")
    return found


async def row_of(ground: Ground, called: str) -> OccurrenceRow:
    """The occurrence with a number. Raises NotThere."""
    number = Ref(int(called)) if _is_number(called) else Ref(-1)
    row = (await ground.store.read(ByRef((number,)))).get(number)
    if row is None or row.job not in ground.timeline.jobs:  # it may be of a job that was not there a moment ago
        raise NotThere(f"there is no occurrence {shown(called)} here, or it is no longer kept")
    return row


async def number_called(house: House, ground: Ground, called: str) -> Ref:
    """The number of an occurrence that is called by something else. Raises NotThere."""
    identity = _as_id(called)
    found = await (_by_run_id(house, ground, called) if identity is None else _by_id(ground, identity))
    if found is None:
        raise NotThere(
            f"there is no occurrence {shown(called)} here, or not of late; "
            "a run id such as etl:1767225600 finds what is due by a schedule, however old"
        )
    return found


def _is_number(called: str) -> bool:
    return called.isascii() and called.isdigit() and len(called) <= _DIGITS_MAX


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


async def _by_run_id(house: House, ground: Ground, called: str) -> Ref | None:
    name, _, seconds = called.rpartition(":")
    job = house.job_of_name(name, ground.timeline)
    if job is None or not _is_number(seconds) or len(seconds) > _SECONDS_DIGITS_MAX:
        return None
    key = Key(int(seconds) * SECOND, job.number, Kind.SCHEDULED)
    row = (await ground.store.read(ByKey((key,)))).get(key)
    return None if row is None else row.ref


async def _by_id(ground: Ground, wanted: UUID) -> Ref | None:
    jobs = ground.timeline.jobs
    for row in await ground.store.read(Active(limit=_LOOKED_AT_MAX)):
        if row.job in jobs and row.key.id(job_id(jobs[row.job].name)) == wanted:
            return row.ref
    for back in _LOOKED_BACK:
        keys = await ground.store.read(Decided(ground.now - back, ground.now + SECOND, _LOOKED_AT_MAX))
        key = next((key for key in keys if key.job in jobs and key.id(job_id(jobs[key.job].name)) == wanted), None)
        if key is not None:
            found = (await ground.store.read(ByKey((key,)))).get(key)
            return None if found is None else found.ref
        if len(keys) == _LOOKED_AT_MAX:
            break
    return None
