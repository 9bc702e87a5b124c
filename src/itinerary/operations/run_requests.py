"""Requested runs: trigger, replay and backfill; also cancel and adjust a run (R4, D1, O5).

    trigger     run now, once for each request key, whichever node receives the request
    replay      run an occurrence again, or some tasks of it: a new occurrence, linked to the old one
    backfill    run a range of the past, `max_active` at a time: a replay where a row exists, else a new occurrence

A request writes a row without an owner before any node is notified. Any node may start the row, under the overlap
policy and the limits of its job. If the policy is `skip`, a requested run waits in the queue, unless the request says
`skip`.

A replay has the number after the last replay of the same occurrence. If two requests take the same number at once, both
read the stored row, and the request that did not write it takes the next number.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import uuid4

from msgspec.structs import replace

from itinerary.core.recovery.backfill import ChosenInstant, InstantChoice, chosen, due_between
from itinerary.core.timeline.history import JobRemoved
from itinerary.errors import ConfigError, NodeError, NotFoundError
from itinerary.model.codec import to_json
from itinerary.model.ids import OccurrenceId, job_id
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByKeyQuery, ByRefQuery, DetailsQuery
from itinerary.model.report import OccurrenceReport
from itinerary.model.report_builder import report_of
from itinerary.model.rows import JobRow, Key, OccurrenceRow, Ref
from itinerary.model.run_request import RunRequestInfo, asked_json, read_asked
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.text import check_name
from itinerary.model.writes import CancelRequest, ClaimRequest, Refusal, Refused
from itinerary.operations.adjust import AdjustedRun, Permit, adjust
from itinerary.operations.backfill import Backfill, BackfillWish, check_version
from itinerary.operations.idempotency import check_same
from itinerary.operations.job_changes import ROUNDS_MAX
from itinerary.ports import Store
from itinerary.read.run_lookup import RunLike, RunLookup, RunReference
from itinerary.read.timeline_view import TimelineView
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import from_seconds, shown_instant
from itinerary.stores.paging import decided_between, windows_after

__all__ = ["Permit", "RunRequests"]

_LOOK_AGAIN_AFTER: Final = 0.2
"""Seconds between two reads of the active runs of a backfill, or of a run that a caller waits for."""
_ROWS_AT_ONCE: Final = 5_000


class RunRequests:
    """Requests for runs, on behalf of one caller."""

    def __init__(
        self, store: Store, view: TimelineView, by: str, lookup: RunLookup, permit: Permit | None = None
    ) -> None:
        """Create the requests of one caller. `permit` checks the values of one run; None permits every value."""
        self._store, self._view, self._by, self._lookup, self._permit = store, view, by, lookup, permit

    async def trigger(
        self,
        name: str,
        key: str | None,
        options: Mapping[str, object],
        reason: str | None,
        fingerprint: str | None = None,
    ) -> RunReference:
        """Create a run of a job now, once for each request key.

        Args:
            name: The job.
            key: The idempotency key; None: every request is a new one.
            options: Values to set on this run, by key.
            reason: Why; stored with the run.
            fingerprint: A digest of the request; set together with `key`.

        Raises:
            IdempotencyKeyReusedError: The key was used with another fingerprint.
            PermissionDeniedError: A value is not permitted.
        """
        overrides = read_overrides(options, OverrideLevel.OCCURRENCE)
        if self._permit is not None:
            job = self._view.job(name)
            self._permit(self._view.timeline.definition(job.number, self._version_now(job)), overrides)
        request = check_name("request key", uuid4().hex if key is None else key)
        details = asked_json(RunRequestInfo(by=self._by, reason=reason, fingerprint=fingerprint))

        def wanted() -> ClaimRequest:
            now, job = self._view.now(), self._view.job(name)
            return ClaimRequest(
                Key(now - now % SECOND, job.number, Kind.TRIGGER, request),
                self._version_now(job),
                now,
                overrides=to_json(overrides).decode() if options else None,
                details=details,
                reason=self._why("triggered", reason),
            )

        run = await self._made(name, wanted)
        if fingerprint is not None:
            row = (await self._store.read(ByRefQuery((run.ref,)))).get(run.ref)
            said = None if row is None else read_asked(row.details)
            check_same(key, None if said is None else said.fingerprint, fingerprint)
        return run

    async def wait(self, run: RunReference) -> OccurrenceReport:
        """Wait until an occurrence has ended, on any node.

        Returns:
            The report of the occurrence.

        Raises:
            NotFoundError: The occurrence is no longer kept.
            StoreError: The store cannot be read.
        """
        while True:
            details = await self._store.read(DetailsQuery((run.ref,)))
            if not details:
                raise NotFoundError(f"occurrence {run} is no longer kept: its history has been pruned")
            if details[0].row.status in FINAL:
                return report_of(run.job, details[0])
            await asyncio.sleep(_LOOK_AGAIN_AFTER)

    async def cancel(self, wanted: RunLike, reason: str | None) -> bool:
        """Ask an occurrence to end. False if it has ended otherwise already."""
        run = await self._lookup.find(self._store, self._view, wanted)
        by = f"{self._by}: {reason}" if reason else self._by
        (answer,) = await self._store.control(self._view.node, [CancelRequest(run.ref, by)])
        if isinstance(answer, Refused):
            return False
        await self._view.cancelled(run.ref, by)
        return True

    async def adjust(self, wanted: RunLike, options: Mapping[str, object], reason: str | None) -> AdjustedRun:
        """Set values on a run that has not started.

        Raises:
            NodeError: The run has started.
            PermissionDeniedError: A value is not permitted.
        """
        return await adjust(self._store, self._view, self._lookup, self._by, wanted, options, reason, self._permit)

    # -- replay ------------------------------------------------------------------------------------------------------

    async def replay(
        self,
        wanted: RunLike,
        reason: str | None,
        tasks: Sequence[str] | None,
        version: str,
        key: str | None,
        fingerprint: str | None = None,
    ) -> RunReference:
        """Run an occurrence again, or some tasks of it.

        Args:
            wanted: The occurrence, which has ended.
            reason: Why; stored with the replay.
            tasks: The tasks to run; None: all.
            version: `original` or `current`.
            key: The idempotency key; None: every request is a new one.
            fingerprint: A digest of the request; set together with `key`.

        Raises:
            IdempotencyKeyReusedError: The key was used with another fingerprint.
            NotFoundError: The occurrence is no longer kept.
            NodeError: The occurrence has not ended.
            ConfigError: The job has no such task.
        """
        check_version(version)
        run = await self._lookup.find(self._store, self._view, wanted)
        row = (await self._store.read(ByRefQuery((run.ref,)))).get(run.ref)
        if row is None:
            raise NotFoundError(f"occurrence {run} is no longer kept: its history has been pruned")
        if row.status not in FINAL:
            raise NodeError(f"occurrence {run} is {row.status}, and has not ended; cancel it, or wait for its end")
        request = uuid4().hex if key is None else check_name("request key", key)
        only = None if tasks is None else tuple(dict.fromkeys(tasks))
        asked = RunRequestInfo(by=self._by, reason=reason, request=request, fingerprint=fingerprint, only_tasks=only)
        job = self._view.job(run.job)
        use = row.version if version == "original" else self._version_now(job)
        self._check_tasks(job, use, asked.only_tasks)
        return (await self._replayed(job, row, use, asked, row.overrides if version == "original" else None))[0]

    def _check_tasks(self, job: JobRow, version: int, tasks: tuple[str, ...] | None) -> None:
        if tasks is None:
            return
        there = [task.name for task in self._view.timeline.definition(job.number, version).tasks]
        if unknown := [task for task in tasks if task not in there]:
            names = ", ".join(there)
            raise ConfigError(f"job {job.name!r} has no task {unknown[0]!r} in version {version}; it has {names}")
        if not tasks:
            raise ConfigError("tasks: names none; leave it out to run all of them again")

    async def _replayed(
        self, job: JobRow, original: OccurrenceRow, version: int, asked: RunRequestInfo, overrides: str | None
    ) -> tuple[RunReference, bool]:
        """Return the replay that this request makes or has made, and True if it is new."""
        identity = original.key.id(job_id(job.name))
        for _ in range(ROUNDS_MAX):
            earlier = await self._replays(original, identity)
            for row in earlier:
                if (said := read_asked(row.details)) is not None and said.request == asked.request:
                    check_same(asked.request, said.fingerprint, asked.fingerprint)
                    return RunReference(job.name, row.key, row.ref), False
            number = 1 + max((_number(row) for row in earlier), default=0)
            details = asked_json(replace(asked, replay_of=identity, replay_number=number))
            key = Key(original.instant, job.number, Kind.REPLAY, f"{identity}/{number}")
            why = self._why(f"replay {number} of {job.name}:{original.instant // SECOND}, asked for", asked.reason)
            run = await self._made(job.name, lambda: self._asked(key, version, overrides, details, why))  # noqa: B023 - awaited in this iteration
            row = (await self._store.read(ByRefQuery((run.ref,))))[run.ref]
            if (said := read_asked(row.details)) is not None and asked_json(said) == details:
                return run, True
        raise NodeError(f"{job.name}:{original.instant // SECOND} was not replayed: others do so all the time")

    async def _replays(self, original: OccurrenceRow, identity: OccurrenceId) -> list[OccurrenceRow]:
        mine = [
            key
            async for page in decided_between(self._store.read, original.instant, original.instant + 1)
            for key in page
            if key.job == original.job and key.kind is Kind.REPLAY and key.request.startswith(f"{identity}/")
        ]
        return list((await self._store.read(ByKeyQuery(tuple(mine)))).values())

    def _asked(self, key: Key, version: int, overrides: str | None, details: str, why: str) -> ClaimRequest:
        return ClaimRequest(key, version, self._view.now(), overrides=overrides, details=details, reason=why)

    # -- backfill ----------------------------------------------------------------------------------------------------

    async def backfill(
        self, name: str, wish: BackfillWish, progress: Callable[[Backfill], None] | None, *, is_dry: bool = False
    ) -> Backfill:
        """Run the chosen instants of a range and wait for their end; with `is_dry` only return them.

        Args:
            name: The job.
            wish: The range and the options.
            progress: Called after each change of the progress.
            is_dry: True to run nothing.

        Raises:
            ConfigError: The range ends in the future.
        """
        await self._view.read()
        job = self._view.job(name)
        if wish.end > self._view.now():
            raise ConfigError(f"the range ends at {shown_instant(wish.end)}, which is to come; backfill what is past")
        due = due_between(self._view.timeline, job.number, wish.start, wish.end)
        choices = chosen(due, await self._rows(job, wish), InstantChoice(wish.which), wish.key)
        instants = tuple(from_seconds(choice.instant // SECOND) for choice in choices)
        far = Backfill(job=name, instants=instants, looked_at=len(due), is_dry=is_dry)
        if is_dry:
            return far
        request = uuid4().hex if wish.key is None else check_name("request key", wish.key)
        asked = RunRequestInfo(by=self._by, reason=wish.reason, request=request, fingerprint=wish.fingerprint)
        return await self._worked_off(job, choices, asked, wish, far, progress)

    def one_at_a_time(self, name: str, wish: BackfillWish) -> str | None:
        """Return why `max_active` has no effect for this job; None if it has."""
        job = self._view.job(name)
        version = self._view.timeline.newest(job.number)
        if wish.max_active == 1 or version is None or self._in_line(job, version.version) is None:
            return None
        return (
            f"max_active {wish.max_active} has no effect: job {name!r} lets no two runs overlap, so its runs start one "
            'after another; overlap = "allow" on the job lets them run at once'
        )

    async def _worked_off(
        self,
        job: JobRow,
        choices: Sequence[ChosenInstant],
        asked: RunRequestInfo,
        wish: BackfillWish,
        far: Backfill,
        progress: Callable[[Backfill], None] | None,
    ) -> Backfill:
        waiting = list(reversed(choices))
        active: set[Ref] = set()
        ended: Counter[OccurrenceState] = Counter()
        while waiting or active:
            before = len(waiting)
            while waiting and len(active) < wish.max_active:
                run, is_new = await self._backfilled(job, waiting.pop(), asked, wish.version)
                active.add(run.ref)
                far = replace(far, created=far.created + is_new)
            rows = await self._store.read(ByRefQuery(tuple(sorted(active))))
            over = [row for row in rows.values() if row.status in FINAL]
            ended.update(row.status for row in over)
            active -= {row.ref for row in over} | (active - rows.keys())
            far = replace(far, ended=dict(ended))
            if (over or len(waiting) < before) and progress is not None:
                progress(far)
            if active and (len(active) >= wish.max_active or not waiting):
                await asyncio.sleep(0 if over else _LOOK_AGAIN_AFTER)
        return far

    async def _backfilled(
        self, job: JobRow, choice: ChosenInstant, asked: RunRequestInfo, version: str
    ) -> tuple[RunReference, bool]:
        if choice.original is not None and choice.original.kind is Kind.BACKFILL:
            said = read_asked(choice.original.details)
            if said is not None and said.request == asked.request:  # this request has made it, where no row was
                check_same(asked.request, said.fingerprint, asked.fingerprint)
                return RunReference(job.name, choice.original.key, choice.original.ref), False
        original = choice.version if choice.original is None else choice.original.version
        use = self._version_now(job) if version == "current" else original
        overrides = self._in_line(job, use)
        if choice.original is not None:
            return await self._replayed(job, choice.original, use, asked, overrides)
        details = asked_json(asked)
        key = Key(choice.instant, job.number, Kind.BACKFILL)
        why = self._why("backfilled", asked.reason)
        run = await self._made(job.name, lambda: self._asked(key, use, overrides, details, why))
        row = (await self._store.read(ByRefQuery((run.ref,))))[run.ref]
        said = read_asked(row.details)
        is_ours = said is not None and said.request == asked.request
        if said is not None and is_ours:
            check_same(asked.request, said.fingerprint, asked.fingerprint)
        return run, is_ours

    def _in_line(self, job: JobRow, version: int) -> str | None:
        """Return overrides that queue a backfill behind active runs, as in recovery; None if overlap is allowed."""
        definition = self._view.timeline.definition(job.number, version)
        if definition.config().overlap.is_parallel:
            return None
        return to_json(Overrides(overlap=Overlap.QUEUE)).decode()

    async def _rows(self, job: JobRow, wish: BackfillWish) -> list[OccurrenceRow]:
        """Return the job's occurrences in the range, and collapsed ranges that reach into it."""
        pages = decided_between(self._store.read, wish.start, wish.end)
        keys = [key async for page in pages for key in page if key.job == job.number]
        rows: dict[Ref, OccurrenceRow] = {}
        for first in range(0, len(keys), _ROWS_AT_ONCE):
            found = await self._store.read(ByKeyQuery(tuple(keys[first : first + _ROWS_AT_ONCE])))
            rows |= {row.ref: row for row in found.values()}
        windows = await windows_after(self._store.read, wish.start)
        rows |= {row.ref: row for row in windows if row.job == job.number}
        return list(rows.values())

    # -- shared by all -----------------------------------------------------------------------------------------------

    def _why(self, what: str, reason: str | None) -> str:
        return f"{what} by {self._by}: {reason}" if reason else f"{what} by {self._by}"

    def _version_now(self, job: JobRow) -> int:
        segment = self._view.timeline.in_force(job.number, self._view.now())
        if segment is None or isinstance(segment.status, JobRemoved):
            raise NodeError(f"job {job.name!r} is not there at present: it was removed, or is to begin later")
        return segment.version

    async def _made(self, name: str, wanted: Callable[[], ClaimRequest]) -> RunReference:
        """Write an occurrence without an owner, by the newest timeline. Any node may start it."""
        for _ in range(ROUNDS_MAX):
            answer = await self._store.claim(None, self._view.timeline.revision, [wanted()])
            if isinstance(answer, Refusal):
                await self._view.read()
                continue
            run = RunReference(name, answer[0].key, answer[0].ref)
            self._lookup.note([run])
            await self._view.offer([run.ref])
            return run
        raise NodeError(f"job {name!r} was not run: the timeline changes all the time; try again")


def _number(row: OccurrenceRow) -> int:
    return int(row.request.rpartition("/")[2])
