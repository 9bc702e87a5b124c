"""The effects of graceful shutdowns, compared with `on_shutdown` of each job (R9).

    cancelled by a shutdown     the function really ran and got a stop request, and the job does not have `rerun`
    interrupted and run again   the node was shut down; the function was not called, or the job has `rerun`

An interrupted attempt is `cancelled`, and another attempt follows. The log of the tasks shows whether its function was
called, independent of nodes and executors.
"""

from __future__ import annotations

from collections.abc import Iterable

from itinerary.model.attempts import AttemptKey
from itinerary.model.config import EffectiveConfig
from itinerary.model.policies import OnShutdown
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import AttemptRow, OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from tests.simulation.checker.snapshot import Snapshot
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.run_log import SimulatedRun, SimulatedRunLog

__all__ = ["check_shutdown", "has_uncalled"]


def check_shutdown(
    snapshot: Snapshot, row: OccurrenceRow, config: EffectiveConfig, log: SimulatedRunLog, violations: Violations
) -> None:
    """Check that a shutdown did to an occurrence only what its job allows."""
    attempts = snapshot.attempts.get(row.ref, ())
    if _is_cancelled_by_shutdown(row):
        if config.on_shutdown is OnShutdown.RERUN:
            violations.add(Rule.SHUTDOWN, f"{snapshot.named(row)} was cancelled, and is to be run again", row.ended_at)
        elif not any(_was_interrupted(run) for attempt in attempts for run in _runs(log, attempt)):
            violations.add(Rule.SHUTDOWN, f"{snapshot.named(row)} was cancelled, and nothing of it ran", row.ended_at)
    last = {attempt.place: attempt.number for attempt in attempts}
    for attempt in attempts:
        if attempt.status is TaskState.CANCELLED and attempt.number < last[attempt.place]:
            for run in _runs(log, attempt):
                if run.process.asked_to_end_at is None:
                    violations.add(Rule.SHUTDOWN, f"{run.name} was interrupted, and its node was not shut down")
                elif config.on_shutdown is not OnShutdown.RERUN:
                    message = f"{run.name} was called and run again, and its job says {config.on_shutdown}"
                    violations.add(Rule.SHUTDOWN, message, run.began_at)


def has_uncalled(attempts: Iterable[AttemptRow], log: SimulatedRunLog) -> bool:
    """True if the function of a stored attempt was never called."""
    return any(not _runs(log, attempt) for attempt in attempts)


def _is_cancelled_by_shutdown(row: OccurrenceRow) -> bool:
    reason = read_reason(row.reason)
    return row.status is OccurrenceState.CANCELLED and reason is not None and reason.kind is ReasonKind.SHUTDOWN


def _runs(log: SimulatedRunLog, attempt: AttemptRow) -> list[SimulatedRun]:
    return log.by_attempt.get(AttemptKey(attempt.ref, attempt.place, attempt.number), [])


def _was_interrupted(run: SimulatedRun) -> bool:
    return run.process.asked_to_end_at is not None and (run.asked_at is not None or run.given_up_at is not None)
