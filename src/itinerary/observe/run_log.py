"""The log of runs: every end of a run is one structured event, on the node that decided it.

    engine's loop ── hear(news) ──► a queue ──► a thread: run_end(news) ──► log.info("run.completed", …)

To format a line takes longer than to decide an end. So the engine's loop only puts the events into a queue, and a
thread formats and writes. Ends that the log level hides are not queued: with the level `warning`, a completed run costs
a comparison.

Of similar ends, a limited number a second has an event of its own; `log.summarized` counts the others. If the log is
still too slow, ends are left out and counted, and the log says how many: the engine never waits for the log. Expected
ends are left out first.

Only `run_end` decides the content of the event. The lines of `itinerary up` come from the same value.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.core.loop.events import OccurrenceDecided, OccurrenceEnded, SchedulerEvent
from itinerary.core.loop.log_budget import SUMMARY_AFTER, LogBudget, log_summaries
from itinerary.model.occurrence import Kind
from itinerary.model.rows import Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules.durations import SECOND

__all__ = ["ENDS_A_SECOND", "QUIET", "RunEnd", "RunLog", "run_end"]

QUIET: Final = frozenset({OccurrenceState.COMPLETED, OccurrenceState.CANCELLED, OccurrenceState.SKIPPED})
"""The expected outcomes, logged as info. All others are warnings."""

ENDS_A_SECOND: Final = 500
"""The number of ends of one outcome that have an event of their own, in each second."""
_WAITING_MAX: Final = 10_000
"""The number of waiting ends above which expected ends are left out."""
_WAITING_LOUD_MAX: Final = 100_000
"""The number of waiting ends above which all ends are left out."""
_WHY_MAX: Final = 2_000
_CLOSE_TIMEOUT: Final = 5.0

Item: TypeAlias = OccurrenceEnded | OccurrenceDecided


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, for people. A field that does not apply is None."""

    job: str
    run: str
    """The run id that people know: `etl:1767225600`."""
    kind: Kind
    outcome: OccurrenceState
    occurrence: Ref | None = None
    attempt: int | None = None
    """The number of attempts of the task; of several tasks, the largest."""
    delay: float | None = None
    """The start lateness in seconds."""
    duration: float | None = None
    """The seconds from the start to the end."""
    why: str | None = None
    """The error, or the reason why the run did not happen."""
    count: int = 1
    """The number of instants that this end covers."""
    ended_at: int | None = None

    @property
    def is_quiet(self) -> bool:
        """True if the outcome is an expected one."""
        return self.outcome in QUIET


def run_end(item: Item) -> RunEnd:
    """Return the end of a run from a scheduler event."""
    key = item.key
    run, why = key.run_id(item.job), None if item.why is None else item.why[:_WHY_MAX]
    if isinstance(item, OccurrenceDecided):
        return RunEnd(job=item.job, run=run, kind=key.kind, outcome=item.outcome, why=why, count=item.count)
    start = item.started_at
    return RunEnd(
        job=item.job,
        run=run,
        kind=key.kind,
        outcome=item.outcome,
        occurrence=item.ref,
        attempt=item.attempts or None,
        delay=None if start is None or item.due_at is None else _seconds(start - item.due_at),
        duration=None if start is None else _seconds(item.ended_at - start),
        why=why,
        ended_at=item.ended_at,
    )


def _seconds(microseconds: int) -> float:
    return round(max(microseconds, 0) / SECOND, 6)


class RunLog:
    """The writer of the log of runs. Pass `handle` to the engine, and close the writer when the node has ended."""

    def __init__(self, log: Any, node: str) -> None:
        # An unbound logger of structlog is created again for each event.
        self._log, self._node = log.bind() if hasattr(log, "bind") else log, node
        self._queue: SimpleQueue[Sequence[Item] | None] = SimpleQueue()
        self._taken = self._written = 0
        """The number of queued ends, counted by the loop, and of written ends, counted by the thread."""
        self._budget = LogBudget(ENDS_A_SECOND)
        self._ended_at = 0
        """The end of the last run that has an end time, in microseconds."""
        self._left_out: Counter[OccurrenceState] = Counter()
        self._left_out_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Queue the ends among the scheduler events. Called on the engine's loop."""
        shows_all = _shows(self._log, logging.INFO)
        ends = [
            item
            for item in news
            if (type(item) is OccurrenceEnded or type(item) is OccurrenceDecided)
            and (shows_all or item.outcome not in QUIET)
        ]
        if not ends:
            return
        if self._taken - self._written >= _WAITING_MAX:
            ends = self._kept(ends)
        self._taken += len(ends)
        self._queue.put(ends)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="itinerary-run-log", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the rest, for a few seconds at most."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_CLOSE_TIMEOUT)

    def _kept(self, ends: list[Item]) -> list[Item]:
        """Return the ends to log although the log is too slow, and count the rest."""
        has_room = self._taken - self._written < _WAITING_LOUD_MAX
        kept = [item for item in ends if has_room and item.outcome not in QUIET]
        left_out = Counter(item.outcome for item in ends)
        left_out.subtract(Counter(item.outcome for item in kept))
        with self._left_out_lock:
            self._left_out += left_out
        return kept

    def _write(self) -> None:
        while True:
            try:
                ends = self._queue.get(timeout=SUMMARY_AFTER if self._budget.owes else None)
            except Empty:
                with suppress(Exception):  # a full disk, for example, must not end the log of runs
                    log_summaries(self._log, self._budget.close())
                continue
            if ends is None:
                break
            self._write_batch(ends)
        with suppress(Exception):  # the log can no longer be written
            log_summaries(self._log, self._budget.close())
            if self._left_out:
                self._say_what_was_left_out()

    def _write_batch(self, ends: Sequence[Item]) -> None:
        """Write ends. If the log fails, for example on a full disk, count the lost ends and continue."""
        written = 0
        try:
            for item in ends:
                self._write_end(run_end(item))
                written += 1
            log_summaries(self._log, self._budget.summaries(self._ended_at))
            if self._left_out and self._queue.empty():
                self._say_what_was_left_out()
        except Exception:  # noqa: BLE001 - handlers of the program may raise anything
            with self._left_out_lock:
                self._left_out += Counter(item.outcome for item in ends[written:])
        finally:
            self._written += len(ends)

    def _write_end(self, end: RunEnd) -> None:
        self._ended_at = end.ended_at or self._ended_at
        level = "info" if end.is_quiet else "warning"
        if self._budget.admits(f"run.{end.outcome}", end.run, self._ended_at, level):
            log_end(self._log, end, self._node)

    def _say_what_was_left_out(self) -> None:
        with self._left_out_lock:
            left_out, self._left_out = self._left_out, Counter()
        hint = "the log could not keep up; itinerary history has all of them"
        self._log.warning("runs.not_logged", **{str(outcome): left_out[outcome] for outcome in left_out}, hint=hint)


def log_end(log: Any, end: RunEnd, node: str) -> None:
    """Log one end."""
    match end.outcome:
        case OccurrenceState.COMPLETED:
            log.info("run.completed", **run_fields(end, node))
        case OccurrenceState.COMPLETED_WITH_ERRORS:
            log.warning("run.completed_with_errors", **run_fields(end, node))
        case OccurrenceState.FAILED:
            log.warning("run.failed", **run_fields(end, node))
        case OccurrenceState.FAILED_STALE:
            log.warning("run.failed_stale", **run_fields(end, node))
        case OccurrenceState.CANCELLED:
            log.info("run.cancelled", **run_fields(end, node))
        case OccurrenceState.ORPHANED:
            log.warning("run.orphaned", **run_fields(end, node))
        case OccurrenceState.SKIPPED:
            log.info("run.skipped", **run_fields(end, node))
        case OccurrenceState.MISSED:
            log.warning("run.missed", **run_fields(end, node))
        case _:
            raise AssertionError(f"{end.outcome} is not among the final states: {sorted(FINAL)}")


def run_fields(end: RunEnd, node: str) -> dict[str, Any]:
    """Return the fields of the event that apply."""
    error = end.outcome in _FAILURES
    fields = {
        "job": end.job,
        "run": end.run,
        "occurrence": end.occurrence,
        "node": node,
        "kind": str(end.kind),
        "attempt": end.attempt,
        "delay": end.delay,
        "duration": end.duration,
        "error" if error else "why": end.why,
        "count": end.count if end.count > 1 else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


_FAILURES: Final = frozenset(
    {OccurrenceState.FAILED, OccurrenceState.COMPLETED_WITH_ERRORS, OccurrenceState.FAILED_STALE}
)


def _shows(log: Any, level: int) -> bool:
    """True if the log shows events of this level, or cannot say."""
    asked = getattr(log, "is_enabled_for", None) or getattr(log, "isEnabledFor", None)
    return True if asked is None else bool(asked(level))
