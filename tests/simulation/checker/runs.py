"""The attempts that really ran, compared with the store and with the rules of their jobs.

The tasks write the log themselves (see `world.run_log`), so a wrong node or store cannot falsify it. A run does not
count after a takeover of its occurrence, or after its node has given it up. The rules apply to it until then.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from itinerary.model.attempts import AttemptKey
from itinerary.model.config import FrozenConfig
from itinerary.model.policies import Mode, OnOrphan, Overlap
from itinerary.model.retries import is_lost
from itinerary.model.rows import AttemptRow, OccurrenceRow, Ref
from itinerary.model.states import OccurrenceState, TaskState
from tests.simulation.checker.commits import Taken, frozen_config
from tests.simulation.checker.match import match
from tests.simulation.checker.shutdowns import check_shutdown, has_uncalled
from tests.simulation.checker.snapshot import Snapshot
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.run_log import SimulatedEnd, SimulatedRun, SimulatedRunLog
from tests.simulation.world.tasks import result_of

__all__ = ["RunChecks"]

_FOREVER: Final = 2**62
_STORED_AS: Final[dict[SimulatedEnd | None, TaskState]] = {
    SimulatedEnd.SUCCEEDED: TaskState.SUCCESS,
    SimulatedEnd.FAILED: TaskState.FAILED,
}
"""The stored status of an attempt that ends by itself, without a stop request."""


def _at(moment: int | None) -> int:
    return _FOREVER if moment is None else moment


class RunChecks:
    """The checks that need the log of the tasks."""

    def __init__(
        self,
        snapshot: Snapshot,
        log: SimulatedRunLog,
        taken: Mapping[Ref, Sequence[Taken]],
        disturbances: Disturbances,
        violations: Violations,
    ) -> None:
        self.snapshot = snapshot
        self.log = log
        self.taken = taken
        self.disturbances = disturbances
        self.violations = violations
        self.by_occurrence: defaultdict[Ref, list[SimulatedRun]] = defaultdict(list)
        for run in log.runs:
            self.by_occurrence[run.attempt.ref].append(run)

    def check(self, prompt_within: int) -> None:
        """Run all checks.

        Args:
            prompt_within: The longest time to write an end without a fault, in microseconds.
        """
        for key, runs in self.log.by_attempt.items():
            if len(runs) > 1:
                where = ", ".join(run.process.incarnation for run in runs)
                self._add(Rule.ONE_START, f"{runs[0].name} began {len(runs)} times: on {where}", runs[1].began_at)
            self._check_result(key, runs[0])
        self._check_beside()
        self._check_by_time()
        for row in self.snapshot.occurrences.values():
            if row.started_at is not None:
                self._check_attempts(row)
                self._check_sequence(row)
                self._check_one_place(row)
                self._check_prompt(row, prompt_within)
                check_shutdown(self.snapshot, row, self._config(row).job, self.log, self.violations)

    def _add(self, rule: Rule, message: str, at: int | None = None) -> None:
        self.violations.add(rule, message, at)

    def _row(self, ref: Ref) -> OccurrenceRow | None:
        return self.snapshot.occurrences.get(ref)

    def _attempt(self, key: AttemptKey) -> AttemptRow | None:
        rows = self.snapshot.attempts.get(key.ref, ())
        return next((row for row in rows if (row.place, row.number) == (key.place, key.number)), None)

    def _lost_at(self, run: SimulatedRun) -> int:
        """Return when a run stopped counting: at a takeover, the occurrence's end, its own end, or when given up."""
        row = self._row(run.attempt.ref)
        ended_at = None if row is None else row.ended_at
        taken = (taken.at for taken in self.taken.get(run.attempt.ref, ()) if taken.at > run.allowed_at)
        return min(_at(run.ended_at), _at(run.given_up_at), _at(ended_at), *taken)

    # -- one attempt -------------------------------------------------------------------------------------------------

    def _check_result(self, key: AttemptKey, run: SimulatedRun) -> None:
        row, attempt = self._row(key.ref), self._attempt(key)
        if row is None or attempt is None:
            self._add(Rule.RESULTS, f"{run.name} ran, and the store has no row of it", run.began_at)
            return
        if run.began_at < row.due_at:
            self._add(Rule.EARLY, f"{run.name} began {row.due_at - run.began_at} µs before it was due", run.began_at)
        if attempt.status is TaskState.SUCCESS and run.ending is not SimulatedEnd.SUCCEEDED:
            self._add(Rule.RESULTS, f"{run.name} is a success in the store, and really {run.ending or 'still runs'}")
        if self._was_taken(run):
            return
        over_at = min(_at(run.ended_at), _at(run.given_up_at))
        if over_at > _at(row.ended_at):
            self._add(Rule.RESULTS, f"{run.name} goes on after the end of its occurrence was written", row.ended_at)
        wanted = _STORED_AS.get(run.ending)
        was_left_alone = run.asked_at is None and run.given_up_at is None
        if was_left_alone and wanted is not None and attempt.status is not wanted:
            self._add(Rule.RESULTS, f"{run.name} really {run.ending}, and is stored as {attempt.status}", run.ended_at)

    def _was_taken(self, run: SimulatedRun) -> bool:
        return any(taken.at > run.allowed_at for taken in self.taken.get(run.attempt.ref, ()))

    # -- one occurrence ----------------------------------------------------------------------------------------------

    def _check_attempts(self, row: OccurrenceRow) -> None:
        config = self._config(row)
        names = {task.place: task for task in self.snapshot.tasks.get(row.ref, [])}
        numbers: defaultdict[int, list[int]] = defaultdict(list)
        lost: Counter[int] = Counter()
        for attempt in self.snapshot.attempts.get(row.ref, ()):
            numbers[attempt.place].append(attempt.number)
            lost[attempt.place] += config.job.on_orphan is OnOrphan.RERUN and is_lost(attempt)
            lost[attempt.place] += attempt.status is TaskState.CANCELLED
        for place, found in numbers.items():
            if found != list(range(1, len(found) + 1)):
                self._add(Rule.RETRIES, f"{self.snapshot.named(row)} task {place} has attempts {found}")
            if place not in names:
                continue
            allowed = 1 + config.of_task(names[place].name).retry.max_retries + lost[place]
            if len(found) > allowed:
                message = f"{self.snapshot.named(row)} task {place} has {len(found)} attempts, {allowed} are allowed"
                self._add(Rule.RETRIES, message)
        if row.status is OccurrenceState.COMPLETED:
            for task in names.values():
                self._check_success(row, task.place, task.status, task.result)

    def _check_success(self, row: OccurrenceRow, place: int, status: TaskState, result: str | None) -> None:
        runs = [run for run in self.by_occurrence.get(row.ref, []) if run.attempt.place == place]
        last = max(runs, key=lambda run: run.attempt.number, default=None)
        if status is not TaskState.SUCCESS or last is None or last.ending is not SimulatedEnd.SUCCEEDED:
            really = "never ran" if last is None else f"really {last.ending}"
            self._add(Rule.RESULTS, f"{self.snapshot.named(row)} is completed, and task {place} is {status}, {really}")
        elif result is not None and result != result_of(last.attempt):
            self._add(
                Rule.RESULTS, f"{self.snapshot.named(row)} task {place} has the result {result} of another attempt"
            )

    def _check_sequence(self, row: OccurrenceRow) -> None:
        if self._config(row).job.mode is not Mode.SEQUENTIAL:
            return
        runs = sorted(self._tasks_of(row), key=lambda run: run.began_at)
        for earlier, later in pairwise(run for run in runs if self._lost_at(run) > run.began_at):
            if earlier.attempt.place != later.attempt.place and self._lost_at(earlier) > later.began_at:
                self._add(Rule.SEQUENCE, f"{later.name} began while {earlier.name} was running", later.began_at)

    def _check_one_place(self, row: OccurrenceRow) -> None:
        """Check that an attempt starts only after the previous one has really ended or was given up by its node.

        This also holds if that node is cut off, and another node runs the task again (protocol rule 18).

        Excuse a process that could not measure the time since the commit that allowed its attempt. A process that was
        frozen there starts the attempt after its thaw, and gives it up when it next reads a clock.
        """
        by_place: defaultdict[int, list[SimulatedRun]] = defaultdict(list)
        for run in self._tasks_of(row):
            by_place[run.attempt.place].append(run)
        for runs in by_place.values():
            for earlier, later in pairwise(sorted(runs, key=lambda run: run.attempt.number)):
                over_at = min(_at(earlier.ended_at), _at(earlier.given_up_at))
                until = max(earlier.began_at, later.began_at)
                excused = self.disturbances.was_bewildered(earlier.process, earlier.allowed_at, until)
                if over_at > later.began_at and not excused:
                    self._add(
                        Rule.ONE_PLACE,
                        f"{later.name} began on {later.process.incarnation} while {earlier.name} ran on "
                        f"{earlier.process.incarnation}",
                        later.began_at,
                    )

    def _tasks_of(self, row: OccurrenceRow) -> list[SimulatedRun]:
        """Return the runs of the tasks, without condition checks and hook calls, which have no task row."""
        places = {task.place for task in self.snapshot.tasks.get(row.ref, [])}
        return [run for run in self.by_occurrence.get(row.ref, []) if run.attempt.place in places]

    def _check_prompt(self, row: OccurrenceRow, prompt_within: int) -> None:
        """Check that the owner writes an end at once, if it can (protocol rule 10)."""
        runs = self.by_occurrence.get(row.ref, [])
        if row.ended_at is None or not runs or self._taken_after(row):
            return
        last = max(runs, key=lambda run: _at(run.ended_at))
        if last.ended_at is None or last.ending is SimulatedEnd.DIED or row.ended_at - last.ended_at <= prompt_within:
            return
        if self._retried_after(row, last):
            return  # the occurrence ended while it waited for a retry
        if has_uncalled(self.snapshot.attempts.get(row.ref, ()), self.log):
            return  # another attempt ended in the executor's queue
        if not self.disturbances.hit(last.process, last.ended_at, last.ended_at + prompt_within):
            late = row.ended_at - last.ended_at
            self._add(Rule.PROMPT, f"{last.name} was over {late} µs before the end was written", row.ended_at)

    def _retried_after(self, row: OccurrenceRow, last: SimulatedRun) -> bool:
        """True if the occurrence was waiting for a retry after this run.

        The trail has the times of the node, whose clock may be behind the store's or jump. So a last transition from
        `retrying` is enough.
        """
        lines = self.snapshot.trail(row)
        if lines[-1].before is OccurrenceState.RETRYING:
            return True
        return any(line.after is OccurrenceState.RETRYING and line.at >= last.began_at for line in lines)

    def _taken_after(self, row: OccurrenceRow) -> bool:
        return any(taken.at > (row.started_at or 0) for taken in self.taken.get(row.ref, ()))

    def _config(self, row: OccurrenceRow) -> FrozenConfig:
        body = row.own_config if row.config is None else self.snapshot.configs[row.config].body
        assert body is not None, "what has started has a configuration"
        return frozen_config(body)

    # -- one job -----------------------------------------------------------------------------------------------------

    def _check_beside(self) -> None:
        """Check that a run starts only when no run of another occurrence of the job counts."""
        latest: dict[str, list[SimulatedRun]] = defaultdict(list)
        for run in sorted(self.log.runs, key=lambda run: run.began_at):
            row = self._row(run.attempt.ref)
            if row is None or row.started_at is None or self._config(row).job.overlap is Overlap.ALLOW:
                continue
            if self._lost_at(run) <= run.began_at:
                continue  # the node lost it between the commit and the start
            still = [other for other in latest[run.job] if self._lost_at(other) > run.began_at]
            for other in still:
                if other.attempt.ref != run.attempt.ref:
                    self._add(Rule.BESIDE, f"{run.name} began while {other.name} was running", run.began_at)
            latest[run.job] = [*still, run]

    def _check_by_time(self) -> None:
        """Check by time alone that every run has a due instant and every instant with a run has a start."""
        first: dict[Ref, int] = {}
        for run in self.log.runs:
            if self._lost_at(run) >= run.began_at:
                first.setdefault(run.attempt.ref, run.began_at)
        by_job: defaultdict[int, list[OccurrenceRow]] = defaultdict(list)
        for row in self.snapshot.occurrences.values():
            if row.ref in first:
                by_job[row.job].append(row)
        for rows in by_job.values():
            windows = [(row.due_at, _at(row.ended_at)) for row in rows]
            served, spare = match(windows, [first[row.ref] for row in rows])
            for row, start in zip(rows, served, strict=True):
                if start is None:
                    self._add(Rule.OWED, f"{self.snapshot.named(row)} ran, and no start lies in its time", row.instant)
            for start in spare:
                self._add(
                    Rule.OWED, f"{self.snapshot.named(rows[start])} began when nothing was due", rows[start].instant
                )
