"""Conditions that are not callables: another job, a file, an HTTP answer, a SQL query (O3).

The executor checks a condition when the core asks, as an ordinary attempt, and answers true or false. A condition that
cannot be checked, such as an unknown job or a wrong statement, is a failure: waiting would not help.

    job     the last due instant of that job, up to the instant of the waiting occurrence, has completed. If several
            runs cover that instant (replays, a backfill, a window), the run that ended last counts. If that run has
            not completed and no other run is in progress, waiting does not help: the answer says so
    file    a file or directory exists at that path
    http    the answer has a status from 200 to 299. No answer at all means false, but an invalid address, or one that
            may not be called, is a failure
    sql     the first value of the first row is true; the query runs in a store transaction that is rolled back
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, assert_never

import msgspec
from msgspec.structs import replace

from itinerary.core.loop.conditions_and_hooks import CannotBeMet
from itinerary.core.recovery.backfill import due_between
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Outcome, Report, Stopped, Succeeded
from itinerary.model.occurrence import Kind
from itinerary.model.queries import JobsByNameQuery
from itinerary.model.retries import exception_names
from itinerary.model.rows import JobNumber, NodeNumber
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.writes import OwnerWrite
from itinerary.ports import Executor, Store
from itinerary.runtime.index_builder import Elsewhere
from itinerary.schedules.durations import SECOND
from itinerary.stores.paging import occurrences_of, windows_after

__all__ = ["ConditionExecutor"]

_LOOKS_BACK: Final = (3_600 * SECOND, 86_400 * SECOND, 32 * 86_400 * SECOND, 400 * 86_400 * SECOND)
"""The search windows for another job's last instant. The first windows are short, because most jobs run often."""
_SQL_TIMEOUT: Final = 10.0
_CLOSING_TIMEOUT: Final = 2.0
"""Seconds that cancelled checks have to end when the node stops."""
_REFUSED: Final = exception_names(ItineraryError)[0]
"""The error of a call that was never made: its address is wrong, or may not be called."""


class _Undone(Exception):
    """The exception that leaves a transaction without a commit."""


class ConditionExecutor:
    """An executor around another one: it checks conditions itself, and passes all other attempts on."""

    def __init__(
        self,
        inner: Executor,
        store: Store,
        timeline: Callable[[], Timeline],
        node: Callable[[], NodeNumber],
        elsewhere: Elsewhere,
    ) -> None:
        self._inner, self._store, self._timeline, self._node, self._elsewhere = inner, store, timeline, node, elsewhere
        self._looking: dict[AttemptKey, asyncio.Task[Outcome]] = {}
        self._over_http: set[AttemptKey] = set()
        self._report: Callable[[Sequence[Report]], None] = lambda _: None

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self._report = report
        await self._inner.open(self._pass_on)

    async def close(self) -> None:
        looking = list(self._looking.values())
        for task in looking:
            task.cancel()
        if looking:
            await asyncio.wait(looking, timeout=_CLOSING_TIMEOUT)
        await self._inner.close()

    def begin(self, assignments: Sequence[Assignment]) -> None:
        others = [one for one in assignments if "requirement" not in one.run]
        for assignment in assignments if len(others) < len(assignments) else ():
            match assignment.run.get("requirement"):
                case None:
                    pass
                case {"http": address}:
                    self._over_http.add(assignment.key)
                    others.append(replace(assignment, run={"http": address}))
                case requirement:
                    task = asyncio.create_task(self._look(assignment, dict(requirement)))
                    self._looking[assignment.key] = task
                    task.add_done_callback(partial(self._looked, assignment.key))
        if others:
            self._inner.begin(others)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            if (task := self._looking.get(key)) is not None:
                task.cancel()
        self._inner.stop(attempts)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for key in attempts:
            if (task := self._looking.get(key)) is not None:
                task.cancel()
        self._inner.kill(attempts)

    def _pass_on(self, reports: Sequence[Report]) -> None:
        """Report the results of the inner executor, with the answer to an HTTP condition as true or false."""
        if self._over_http:
            reports = [self._as_answer(report) for report in reports]
        self._report(reports)

    def _as_answer(self, report: Report) -> Report:
        if not isinstance(report, Ended) or report.key not in self._over_http:
            return report
        self._over_http.discard(report.key)
        match report.outcome:
            case Succeeded():
                return Ended(report.key, Succeeded("true"))
            case Failed(_, names) if _REFUSED in names:
                return report
            case Failed():
                return Ended(report.key, Succeeded("false"))
            case Stopped():
                return report
            case _:
                assert_never(report.outcome)

    # -- checks --------------------------------------------------------------------------------------------------------

    async def _look(self, assignment: Assignment, requirement: dict[str, Any]) -> Outcome:
        try:
            return Succeeded(msgspec.json.encode(await self._is_so(assignment, requirement)).decode())
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            return Failed(f"{type(error).__name__}: {error}", exception_names(type(error)))

    def _looked(self, key: AttemptKey, task: asyncio.Task[Outcome]) -> None:
        """Report the end of a check. This includes a check that was stopped before it began."""
        del self._looking[key]
        self._report((Ended(key, Stopped() if task.cancelled() else task.result()),))

    async def _is_so(self, assignment: Assignment, requirement: dict[str, Any]) -> bool | CannotBeMet:
        match requirement:
            case {"file": path}:
                exists: bool = await self._elsewhere(Path(path).exists)
                return exists
            case {"job": name}:
                return await self._has_completed(str(name), assignment.facts.key.instant)
            case {"sql": statement}:
                return await self._answers(assignment.key, str(statement))
            case _:
                raise ItineraryError(f"nobody knows how to look at {requirement}")

    async def _has_completed(self, name: str, instant: int) -> bool | CannotBeMet:
        """Return whether the other job's last instant up to this one has completed by any run, or cannot complete."""
        row = (await self._store.read(JobsByNameQuery((name,)))).get(name)
        if row is None:
            raise ItineraryError(f"there is no job {name!r}")
        last = await self._elsewhere(self._last_instant, row.number, instant)
        if last is None:
            return False
        runs = [one for one in await occurrences_of(self._store.read, row.number, last) if one.kind is not Kind.TRIGGER]
        covering = [
            one
            for one in await windows_after(self._store.read, last)
            if one.job == row.number and one.window is not None and one.window.start <= last < one.window.end
        ]
        runs = list({one.ref: one for one in (*runs, *covering)}.values())
        ended = [one for one in runs if one.status in FINAL]
        newest = max(ended, key=lambda one: (one.ended_at or 0, one.ref), default=None)
        if newest is not None and newest.status is OccurrenceState.COMPLETED:
            return True
        if newest is None or len(ended) < len(runs):
            return False
        run = newest.key.run_id(name)
        return CannotBeMet(f"{run} is {newest.status}, and is not waited for; replay {run}, and then this one")

    def _last_instant(self, job: JobNumber, instant: int) -> int | None:
        timeline = self._timeline()
        for back in _LOOKS_BACK:
            found = timeline.expected(instant - back, instant + SECOND, [job])
            instants = found.instants[found.is_to_run]
            if len(instants):
                return int(instants[-1])
        for back in _LOOKS_BACK:  # before the job was registered: a backfill runs these instants
            if due := due_between(timeline, job, instant - back, instant + SECOND):
                return max(due)
        return None

    async def _answers(self, key: AttemptKey, statement: str) -> bool:
        nothing = OwnerWrite(key.ref, 0, 0)
        rows: list[tuple[Any, ...]] = []
        try:
            async with self._store.transaction(self._node(), nothing, nothing, timeout=_SQL_TIMEOUT) as transaction:
                rows = await transaction.fetch(statement)
                _undo()
        except _Undone:
            return bool(rows and rows[0] and rows[0][0])


def _undo() -> NoReturn:
    raise _Undone
