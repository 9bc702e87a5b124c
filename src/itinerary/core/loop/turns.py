"""Runs of one job on this node, one after another: a late run waits here for the run before it.

A node that was stopped for ten seconds finds ten instants of a job that is due each second. All ten may run, because
nothing ran when they were due (`StartRequest.late_until`). The store would queue them behind each other, one row at a
time. For thousands of jobs, that takes the store longer than to run them. So the node does not ask for a start while an
earlier run of the same job is about to end:

    instant 1    starting ─► running ─► end is written ─┐
    instant 2    waits in memory ───────────────────────┴► starting ─► …
    instant 3    waits in memory

Then each batch of starts has at most one run of a job. That run finds the overlap slot free, needs no decision, and
takes the bulk path of `ledger/bulk_start.py`. Instants of a job start in order. No instant is skipped because the node
itself was slow to write the end of the run before it.

A run waits only in these cases:

- The run before it is being started.
- The run before it has begun late, and less than `WAIT_MAX` ago.
- The run before it has ended, and its end is being written.
- The run before it waits for a slot of the node, for less than `WAIT_MAX`. After that, both are marked as `pending`.

Otherwise the two runs really overlap: the store is asked, and the overlap policy decides. A run that waits here is
still `prerun` in the store, so another node may take it over as usual.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Final

from itinerary.core.loop.occurrence import OccurrenceRun, Stage
from itinerary.core.loop.timers import TimerQueue
from itinerary.model.rows import JobNumber, Key
from itinerary.schedules.durations import SECOND

__all__ = ["WAIT_MAX", "RunOrder"]

WAIT_MAX: Final = 2 * SECOND
"""How long a run may have waited for a slot, or may have been running, while the next run of its job waits here."""

LATE_MIN: Final = SECOND // 10
"""The delay from which on the start of a run is late."""

_CLAIMED: Final = Stage.CLAIMED
_LINED_UP: Final = Stage.WAITING_FOR_SLOT
_STARTING: Final = Stage.STARTING
_ENDING: Final = Stage.ENDING
_OVER: Final = Stage.DONE
_UNTIL_OVER: Final = 2**63 - 1


class RunOrder:
    """The run of each job that is started next or was started last, and the runs that wait for it."""

    __slots__ = ("_current", "_waiting", "waiting")

    def __init__(self) -> None:
        self._current: dict[JobNumber, OccurrenceRun] = {}
        self._waiting: dict[JobNumber, list[OccurrenceRun]] = {}
        """In the order of their keys."""
        self.waiting = 0
        """The number of runs that wait."""

    def admit(self, due: Sequence[OccurrenceRun], now: int, alarms: TimerQueue) -> list[OccurrenceRun]:
        """Return the runs that need not wait for another run of their job. `alarms` wakes the others."""
        admitted: list[OccurrenceRun] = []
        current, waiting = self._current, self._waiting
        for run in due:
            job = run.key.job
            if run.stage is not _CLAIMED or run.fence is None or run.request is None:
                admitted.append(run)  # a run that was taken over may hold the overlap slot already
            elif run.request.overlap.is_parallel or run.skip is not None:
                admitted.append(run)
            elif job not in current and job not in waiting:  # the usual case
                current[job] = run
                admitted.append(run)
            elif self.has_turn(run, now, alarms):
                admitted.append(run)
        return admitted

    def has_turn(self, run: OccurrenceRun, now: int, alarms: TimerQueue) -> bool:
        """True if a run need not wait for another run of its job. Otherwise the run waits from now on."""
        if run.fence is None or run.request is None or run.request.overlap.is_parallel:
            return True
        job = run.key.job
        current = self._current.get(job)
        if current is None or current is run or current.stage is _OVER:
            first = self.first_of(job)
            if first is not None and first is not run and first.key < run.key:
                self._current.pop(job, None)  # two runs must not wait for each other
                self._wait(run)
                alarms.put(now, first)
                return False
            self._current[job] = run
        else:
            wakes_at = _waits_until(current, run)
            if now < wakes_at:
                self._wait(run)
                if wakes_at is not _UNTIL_OVER:
                    alarms.put(wakes_at, run)
                return False
            if current.stage is _LINED_UP and run.stage is _LINED_UP:
                self._current[job] = run  # it has a higher priority
        if self._drop(run) and (following := self.first_of(job)) is not None and current is not run:
            alarms.put(now, following)  # decided again, behind this one
        return True

    def begun(self, run: OccurrenceRun, now: int, alarms: TimerQueue) -> None:
        """Record that a run has begun. The next run of its job waits for `WAIT_MAX` at most."""
        job, run.begun_at = run.key.job, now
        if job in self._waiting and self._current.get(job) is run:
            alarms.put(now + WAIT_MAX, self._waiting[job][0])

    def over(self, run: OccurrenceRun, now: int, alarms: TimerQueue) -> None:
        """Remove a run, and wake the run whose turn has come."""
        job = run.key.job
        if self._current.get(job) is run:
            del self._current[job]
            if job not in self._waiting:
                return  # the usual case
        elif job not in self._waiting:
            return
        self._drop(run)
        if job not in self._current and (first := self.first_of(job)) is not None:
            alarms.put(now, first)

    def first_of(self, job: JobNumber) -> OccurrenceRun | None:
        """Return the first run of a job that waits."""
        waiting = self._waiting.get(job)
        return waiting[0] if waiting else None

    def holds(self, run: OccurrenceRun) -> bool:
        """True if the run waits here."""
        return run in self._waiting.get(run.key.job, ())

    def _wait(self, run: OccurrenceRun) -> None:
        waiting = self._waiting.setdefault(run.key.job, [])
        if run not in waiting:
            insort(waiting, run, key=_key)
            self.waiting += 1

    def _drop(self, run: OccurrenceRun) -> bool:
        """End the wait of a run. Return True if it was waiting."""
        waiting = self._waiting.get(run.key.job)
        if waiting is None or run not in waiting:
            return False
        waiting.remove(run)
        self.waiting -= 1
        if not waiting:
            del self._waiting[run.key.job]
        return True


def _waits_until(current: OccurrenceRun, run: OccurrenceRun) -> int:
    """Return until when a run waits for the current run of its job; 0 if it does not wait."""
    stage = current.stage
    if stage is _CLAIMED or stage is _STARTING or stage is _ENDING:
        return _UNTIL_OVER
    if stage is _LINED_UP:
        return current.lined_up_at + WAIT_MAX if run.stage is _CLAIMED else 0
    is_late = current.started_at - current.due_at >= LATE_MIN
    return current.begun_at + WAIT_MAX if current.has_begun and is_late else 0


def _key(run: OccurrenceRun) -> Key:
    return run.key
