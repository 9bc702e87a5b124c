"""Declared jobs meet stored ones, at the start of a node.

    not stored, or removed        its first version, or its next one (D10)
    stored, and the same          nothing
    stored, and different         its next version, made from the newest
    stored, and not declared      stays as it is: another program may be its home

Several nodes start at the same moment with the same declarations. Each entry names the version that it was made from,
and the store refuses it if there is another by then: who is refused reads again, and finds that nothing is left to be
done. An entry's `request` is a digest of what it says, so one whose answer was lost is not made twice either.

A bare duration counts from its job's first registration (S4). That moment is read off what is stored, whatever the
schedule was wrapped in, so that every node and every restart finds the same one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from itinerary.app.declaring import Declaration
from itinerary.app.judging import judge_of_versions
from itinerary.core.bodies import read_definition, read_schedule
from itinerary.errors import ItineraryError, NodeError
from itinerary.model.queries import Entries, JobsByName, Standing
from itinerary.model.rows import EntryKind, JobNumber, JobRow
from itinerary.model.timeline import Denial, Denied, NewEntry
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment

__all__ = ["register"]

ENTRIES_AT_ONCE: Final = 2_000
_PAGE: Final = 10_000
_ROUNDS_MAX: Final = 50
"""How often others may be quicker before this gives up: each time one of them has got on."""


class _Newest(msgspec.Struct, frozen=True):
    """What is stored of a job, last."""

    body: str | None
    is_removed: bool


async def register(store: Store, declared: Mapping[str, Declaration], *, by: str, log: Any) -> None:
    """Bring the store's timeline to what is declared."""
    for _ in range(_ROUNDS_MAX):
        planned = await _planned(store, declared, by)
        new = [one for one in planned if one.from_version == 0]
        changed = [one for one in planned if one.from_version != 0]
        is_refused = False
        for batch in (*_batches(new), *_batches(changed)):
            is_refused = not await _entered(store, batch, log) or is_refused
        if not is_refused:
            return
    raise NodeError(
        f"the jobs could not be registered: {_ROUNDS_MAX} times somebody else changed them meanwhile; "
        "do several programs declare the same names differently?"
    )


async def _planned(store: Store, declared: Mapping[str, Declaration], by: str) -> list[NewEntry]:
    jobs: dict[str, JobRow] = {}
    names = sorted(declared)
    for first in range(0, len(names), _PAGE):
        jobs |= await store.read(JobsByName(tuple(names[first : first + _PAGE])))
    now = (await store.read(Standing())).now
    newest = await _newest(store) if jobs else {}
    planned = []
    for name, declaration in declared.items():
        job = jobs.get(name)
        if job is None:
            body, version = declaration.body(now // SECOND), 0
        else:
            stored = newest.get(job.number, _Newest(None, is_removed=True))
            body, version = declaration.body(_anchor(stored.body, job)), job.version
            if not stored.is_removed and is_same(stored.body, body):
                continue
        entry = NewEntry(
            job=name,
            kind=EntryKind.VERSION,
            request=_request(body, version),
            by=by,
            from_version=version,
            body=body,
            reason="declared" if version == 0 else "declared differently",
        )
        planned.append(entry)
    return planned


async def _newest(store: Store) -> dict[JobNumber, _Newest]:
    """The last version of every job, and whether it has been removed since."""
    newest: dict[JobNumber, _Newest] = {}
    after = 0
    while True:
        page = await store.read(Entries(after, _PAGE))
        for entry in page:
            if entry.kind is EntryKind.VERSION:
                newest[entry.job] = _Newest(entry.body, is_removed=False)
            elif entry.kind is EntryKind.REMOVE and entry.job in newest:
                newest[entry.job] = _Newest(newest[entry.job].body, is_removed=True)
        if len(page) < _PAGE:
            return newest
        after = page[-1].revision


def is_same(stored: str | None, body: str) -> bool:
    """Whether two bodies say the same; most are the same text, and the others are read."""
    if stored == body:
        return True
    try:
        return read_definition(stored) == read_definition(body)
    except ItineraryError:
        return False  # nobody can read what is stored, so what is declared takes its place


def _anchor(stored: str | None, job: JobRow) -> int:
    """Where a bare duration of this job counts from, in seconds."""
    try:
        schedule = None if stored is None else read_definition(stored).schedule
    except ItineraryError:
        schedule = None
    found = next(_anchors(schedule), None)
    return job.registered_at // SECOND if found is None else Moment.of(found, "anchored").seconds


def _anchors(part: object) -> Iterator[str]:
    match part:
        case Mapping():
            if isinstance(part.get("anchored"), str):
                yield part["anchored"]
            for inner in part.values():
                yield from _anchors(inner)
        case list() | tuple():
            for inner in part:
                yield from _anchors(inner)
        case _:
            return


def _request(body: str, version: int) -> str:
    return f"declared/{hashlib.sha256(f'{version}/{body}'.encode()).hexdigest()[:40]}"


def _batches(planned: Sequence[NewEntry]) -> list[Sequence[NewEntry]]:
    return [planned[first : first + ENTRIES_AT_ONCE] for first in range(0, len(planned), ENTRIES_AT_ONCE)]


async def _entered(store: Store, batch: Sequence[NewEntry], log: Any) -> bool:
    """Whether the entries stand; if not, somebody was quicker with one of them, and none was made."""
    changed = {entry.job: (entry.from_version + 1, read_schedule(entry.body)) for entry in batch if entry.from_version}
    judge = await judge_of_versions(store, changed) if changed else None
    answers = await store.amend(batch, judge)
    refused = [answer for answer in answers if isinstance(answer, Denied)]
    if refused:
        if other := [answer for answer in refused if answer.why is not Denial.STALE]:
            raise NodeError(f"job {other[0].job!r} could not be registered: {other[0].why}")
        log.info("jobs.registered_by_others", count=len(refused), first=refused[0].job)
        return False
    log.info("jobs.registered", count=len(batch), first=batch[0].job)
    return True
