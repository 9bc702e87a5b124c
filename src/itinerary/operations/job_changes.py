"""What people change about a job's standing: pause, resume, stop, start, remove, skip (S11, S12, D10).

Each is an entry on the job's timeline, with who, when and why. It is decided by the newest timeline: if somebody else
has changed that meanwhile it is read, and decided again. What has not started is judged in the same transaction.

No node is needed for any of it. A pause that was entered while nobody ran has skipped what it covers when somebody
comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from itinerary.core.recovery.pause import Backlog, held_row
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ConfigError, NodeError
from itinerary.model.queries import Active
from itinerary.model.rows import EntryKind, EntryRow, JobRow, OccurrenceRow
from itinerary.model.text import shown
from itinerary.model.timeline import Denial, Denied, Entered, NewEntry
from itinerary.model.writes import Passing, Written
from itinerary.operations.idempotency import RequestKey
from itinerary.ports import Store
from itinerary.read.timeline_view import View
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["ROUNDS_MAX", "Changes"]

_HELD_MAX: Final = 1_000_000
_AT_ONCE: Final = 1_000
ROUNDS_MAX: Final = 50
"""How often others may change the timeline meanwhile before this gives up."""


class Changes:
    """Changes of jobs, by one person."""

    def __init__(self, store: Store, view: View, by: str) -> None:
        self._store, self._view, self._by = store, view, by

    async def pause(self, name: str, reason: str | None, until: int | None, key: RequestKey | None = None) -> EntryRow:
        """Skip a job's instants from now on: until a user resumes the job, or until `until`. What was to run before and
        has not started is held (see `held`)."""

        def check(_: Timeline, __: JobRow) -> None:
            if until is not None and until <= self._view.now():
                raise ConfigError(f"until: {shown_instant(until)} is past; give an instant that is still to come")

        body = None if until is None else msgspec.json.encode({"until": until}).decode()
        return await self._enter(name, EntryKind.PAUSE, reason, key, body=body, check=check)

    async def resume(
        self, name: str, reason: str | None, key: RequestKey | None = None, *, backlog: str = Backlog.RUN
    ) -> tuple[EntryRow, int]:
        """End a pause. What it held runs, or is skipped first, while it is still held.

        Args:
            name: The job.
            reason: Why; it is kept.
            key: What makes two requests the same one.
            backlog: `run` or `skip`: what becomes of what the pause held.

        Returns:
            The entry, and how many occurrences were released or skipped.

        Raises:
            ConfigError: `backlog` is neither.
        """
        if backlog not in tuple(Backlog):
            raise ConfigError(f"backlog: {shown(backlog)} is unknown; allowed: {', '.join(Backlog)}")
        if backlog == Backlog.SKIP:
            why = f"skipped by {self._by}: the backlog of a pause" + ("" if reason is None else f", {reason}")
            count = await self._skip_held(name, why)
        else:
            count = len(await self.held(name))
        return await self._enter(name, EntryKind.RESUME, reason, key), count

    async def held(self, name: str) -> list[OccurrenceRow]:
        """Read what the pause of a job holds; nothing, if it is not paused."""
        job = self._view.job(name)
        rows = await self._store.read(Active(job.number, limit=_HELD_MAX))
        timeline, now = self._view.timeline, self._view.now()
        return [row for row in rows if held_row(timeline, row, now) is not None]

    async def _skip_held(self, name: str, why: str) -> int:
        """Skip what the pause of a job holds. What is skipped in a queue lets the next come, so it is read again."""
        count = 0
        for _ in range(ROUNDS_MAX):
            rows = await self.held(name)
            if not rows:
                break
            for first in range(0, len(rows), _AT_ONCE):
                asked = [Passing(row.ref, why) for row in rows[first : first + _AT_ONCE]]
                answers = await self._store.control(None, asked)
                count += sum(isinstance(answer, Written) for answer in answers)
        return count

    async def stop(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Expect nothing of a job from now on."""
        return await self._enter(name, EntryKind.STOP, reason, key)

    async def start(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Expect its instants again."""
        return await self._enter(name, EntryKind.START, reason, key)

    async def remove(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Take a job away: what runs finishes, its history stays (D10)."""
        return await self._enter(name, EntryKind.REMOVE, reason, key)

    async def skip(self, name: str, instant: int, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Pass over one named instant."""
        at = shown_instant(instant)

        def check(timeline: Timeline, job: JobRow) -> None:
            if instant <= self._view.now():
                raise ConfigError(f"{at} is past, and what became of it is decided; skip one that is to come")
            if instant % SECOND or not len(timeline.expected(instant, instant + SECOND, [job.number])):
                raise ConfigError(f"job {name!r} has no occurrence at {at}; ask next_run() when it has")

        return await self._enter(name, EntryKind.SKIP, reason, key, subject=str(instant), check=check)

    async def _enter(
        self,
        name: str,
        kind: EntryKind,
        reason: str | None,
        key: RequestKey | None,
        *,
        body: str | None = None,
        subject: str = "",
        check: Callable[[Timeline, JobRow], None] | None = None,
    ) -> EntryRow:
        """Make an entry, and return it: with a key that has made it already, that one."""
        request = f"{kind}/{uuid4()}" if key is None else key.request(kind)
        for _ in range(ROUNDS_MAX):
            timeline, job = self._view.timeline, self._view.job(name)
            if key is not None and (made := key.made(timeline.entries(job.number))) is not None:
                return made
            if check is not None:
                check(timeline, job)
            entry = NewEntry(
                job=name,
                kind=kind,
                request=request,
                by=self._by,
                revision=timeline.revision,
                reason=reason,
                body=body,
                subject=subject,
            )
            (answer,) = await self._store.amend([entry], judge_by(timeline))
            if isinstance(answer, Entered):
                await self._view.changed(f"{kind} of {name}")
                return next(one for one in self._view.timeline.entries(job.number) if one.request == request)
            await self._denied(name, kind, answer)
        raise NodeError(f"job {name!r}: the {kind} was not entered: the timeline changes all the time; try again")

    async def _denied(self, name: str, kind: EntryKind, denied: Denied) -> None:
        if denied.why is not Denial.MOVED:
            raise NodeError(f"job {name!r}: the {kind} was refused: {denied.why}")
        await self._view.read()
