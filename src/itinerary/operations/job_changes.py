"""Changes to the status of a job: pause, resume, stop, start, remove, skip (S11, S12, D10).

Every change is an entry on the job's timeline that records who, when and why. The decision needs the newest timeline:
if another caller has changed it, the change reads it and decides again. The same transaction decides unstarted
occurrences again.

No node is needed for any of it. A pause also covers the instants of a time without a running node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec

from itinerary.core.recovery.pause import HeldBacklog, held_row
from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ConfigError, NodeError
from itinerary.model.queries import ActiveQuery
from itinerary.model.rows import EntryKind, EntryRow, JobRow, OccurrenceRow
from itinerary.model.text import shown
from itinerary.model.timeline import EntryAccepted, EntryRefusal, EntryRejected, TimelineEntryRequest
from itinerary.model.writes import SkipRequest, Written
from itinerary.operations.idempotency import RequestKey
from itinerary.ports import Store
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["ROUNDS_MAX", "StatusChanges"]

_HELD_MAX: Final = 1_000_000
_AT_ONCE: Final = 1_000
ROUNDS_MAX: Final = 50
"""The limit of retries after other callers have changed the timeline."""


class StatusChanges:
    """Changes to the status of jobs, on behalf of one caller."""

    def __init__(self, store: Store, view: TimelineView, by: str) -> None:
        self._store, self._view, self._by = store, view, by

    async def pause(self, name: str, reason: str | None, until: int | None, key: RequestKey | None = None) -> EntryRow:
        """Skip a job's instants from now on, until a user resumes the job or until `until`.

        The pause holds unstarted occurrences that were due before (see `held`).

        Raises:
            ConfigError: `until` is in the past.
        """

        def check(_: Timeline, __: JobRow) -> None:
            if until is not None and until <= self._view.now():
                raise ConfigError(f"until: {shown_instant(until)} is past; give an instant that is still to come")

        body = None if until is None else msgspec.json.encode({"until": until}).decode()
        return await self._enter(name, EntryKind.PAUSE, reason, key, body=body, check=check)

    async def resume(
        self, name: str, reason: str | None, key: RequestKey | None = None, *, backlog: str = HeldBacklog.RUN
    ) -> tuple[EntryRow, int]:
        """End a pause, and release or skip the occurrences that it held.

        A skip happens before the pause ends, so that no held occurrence can start.

        Args:
            name: The job.
            reason: Why; stored in the entry.
            key: The idempotency key.
            backlog: `run` or `skip`, for the held occurrences.

        Returns:
            The entry, and the number of occurrences that were released or skipped.

        Raises:
            ConfigError: `backlog` is neither `run` nor `skip`.
        """
        if backlog not in tuple(HeldBacklog):
            raise ConfigError(f"backlog: {shown(backlog)} is unknown; allowed: {', '.join(HeldBacklog)}")
        if backlog == HeldBacklog.SKIP:
            why = f"skipped by {self._by}: the backlog of a pause" + ("" if reason is None else f", {reason}")
            count = await self._skip_held(name, why)
        else:
            count = len(await self.held(name))
        return await self._enter(name, EntryKind.RESUME, reason, key), count

    async def held(self, name: str) -> list[OccurrenceRow]:
        """Return the occurrences that the pause of a job holds; empty if the job is not paused."""
        job = self._view.job(name)
        rows = await self._store.read(ActiveQuery(job.number, limit=_HELD_MAX))
        timeline, now = self._view.timeline, self._view.now()
        return [row for row in rows if held_row(timeline, row, now) is not None]

    async def _skip_held(self, name: str, why: str) -> int:
        """Skip held occurrences. A skip in the overlap queue admits the next one, so read again until none is left."""
        count = 0
        for _ in range(ROUNDS_MAX):
            rows = await self.held(name)
            if not rows:
                break
            for first in range(0, len(rows), _AT_ONCE):
                asked = [SkipRequest(row.ref, why) for row in rows[first : first + _AT_ONCE]]
                answers = await self._store.control(None, asked)
                count += sum(isinstance(answer, Written) for answer in answers)
        return count

    async def stop(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """End the instants of a job from now on."""
        return await self._enter(name, EntryKind.STOP, reason, key)

    async def start(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Resume the instants of a stopped job."""
        return await self._enter(name, EntryKind.START, reason, key)

    async def remove(self, name: str, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Remove a job. Its running occurrences finish, and its history stays (D10)."""
        return await self._enter(name, EntryKind.REMOVE, reason, key)

    async def skip(self, name: str, instant: int, reason: str | None, key: RequestKey | None = None) -> EntryRow:
        """Skip one future instant of a job. Raises ConfigError if it is past or the job has no such instant."""
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
        """Make an entry and return it, or return the entry that a request with the same key made."""
        request = f"{kind}/{uuid4()}" if key is None else key.request(kind)
        for _ in range(ROUNDS_MAX):
            timeline, job = self._view.timeline, self._view.job(name)
            if key is not None and (made := key.made(timeline.entries(job.number))) is not None:
                return made
            if check is not None:
                check(timeline, job)
            entry = TimelineEntryRequest(
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
            if isinstance(answer, EntryAccepted):
                await self._view.changed(f"{kind} of {name}")
                return next(one for one in self._view.timeline.entries(job.number) if one.request == request)
            await self._denied(name, kind, answer)
        raise NodeError(f"job {name!r}: the {kind} was not entered: the timeline changes all the time; try again")

    async def _denied(self, name: str, kind: EntryKind, denied: EntryRejected) -> None:
        if denied.why is not EntryRefusal.MOVED:
            raise NodeError(f"job {name!r}: the {kind} was refused: {denied.why}")
        await self._view.read()
