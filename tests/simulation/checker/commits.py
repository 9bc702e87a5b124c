"""The commit checker: the rules that hold at every commit, checked directly after each commit.

A checker that reads the store at the end sees only the final rows. Two occurrences of one job that ran together for a
second would be invisible, and so would a later overwritten write of a node that had lost its occurrence. So the
simulated database passes each commit to this checker, with each row before the change. The checker does not know how
the ledger decides: rows are compared with rows, and with the rights of the writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from itinerary.model.attempts import AttemptKey
from itinerary.model.audit_trail import all_attempts
from itinerary.model.config import FrozenConfig
from itinerary.model.occurrence import Kind, Window
from itinerary.model.policies import Overlap
from itinerary.model.reasons import ReasonKind, read_reason
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref, TransitionRow
from itinerary.model.states import FINAL, TASK_FINAL, OccurrenceState, TaskState
from itinerary.model.writes import OwnerWrite, Written
from itinerary.schedules import ZoneSource
from itinerary.stores.ledger.claim import THE_ONE
from itinerary.stores.ledger.indexes import is_for_the_sweep
from itinerary.stores.tables import ATTEMPTS, CONFIGS, ENTRIES, NODES, OCCURRENCES, SWEEP, TASKS, TRANSITIONS
from itinerary.testing.processes import Process
from tests.simulation.checker.expectations import Expectations
from tests.simulation.checker.heartbeat_gaps import Silence
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.world.backend import Backend, Commit
from tests.simulation.world.run_log import SimulatedRun
from tests.simulation.world.store import Writing

__all__ = ["Taken", "Witness", "frozen_config"]

_TAKEN_AS: Final = frozenset({OccurrenceState.ORPHANED, OccurrenceState.RETRYING})
"""The states of started work after a takeover."""
_WITHDRAWN: Final = (OccurrenceState.CANCELLED, OccurrenceState.PRERUN)


class Taken(msgspec.Struct, frozen=True):
    """A higher fence for an occurrence. Work of the previous owner after `at` does not count."""

    at: int
    fence: int
    owner: NodeNumber | None


class Witness:
    """A checker of every commit. The results are in `violations`."""

    def __init__(
        self,
        backend: Backend,
        limits: Mapping[str, int],
        violations: Violations,
        *,
        silence_min: int,
        late_for: int,
        zone_data: Mapping[str, ZoneSource] | None = None,
    ) -> None:
        """Create a checker.

        Args:
            backend: The database.
            limits: The number of shares of each named limit.
            violations: Receives the violations.
            silence_min: The shortest silence of a node, in microseconds, before a takeover of its started work.
            late_for: The largest start lateness, in microseconds, without a decision by a sweep.
            zone_data: The zone data releases of this world, by name.
        """
        self._backend = backend
        self._silence_min, self._late_for = silence_min, late_for
        self.silence = Silence()
        self._limits = limits
        """The number of shares of each named limit."""
        self.violations = violations
        self.taken: defaultdict[Ref, list[Taken]] = defaultdict(list)
        """The times at which each occurrence got a higher fence."""
        self.started_under: dict[Ref, int] = {}
        """The fence at the start of each occurrence."""
        self.expectations = Expectations(zone_data)
        """The expected instants of each job, which the watermark may pass only when they are decided."""
        self._windows: defaultdict[JobNumber, dict[Ref, Window]] = defaultdict(dict)
        self._numbers: dict[str, NodeNumber] = {}
        self._machines: dict[NodeNumber, str] = {}
        """The machine of each node. A new process on a machine proves that the previous process is gone."""
        self._crashed_at: dict[NodeNumber, int] = {}
        self._committed_at: dict[NodeNumber, int] = {}
        """The last commit of each node. A call sent before a crash may be committed after the crash."""
        self._keys: dict[Key, Ref] = {}
        self._running: defaultdict[JobNumber, dict[Ref, None]] = defaultdict(dict)
        """The occurrences of each job that have started, are not final, and hold the overlap slot."""
        self._in_slot_since: dict[Ref, int] = {}
        """The time when each occurrence got the overlap slot: when it left the queue, or when it started."""
        self._holders: defaultdict[str, dict[Ref, None]] = defaultdict(dict)
        """The occurrences that hold a share of each limit."""
        self._launchable: dict[AttemptKey, tuple[Process | None, int]] = {}
        """Attempts that a commit has allowed, with the process that made the call, and the time."""
        self._launched: dict[AttemptKey, Process] = {}
        self.others: list[Callable[[Commit], None]] = []
        """Other checkers of every commit."""
        self._unstarted: defaultdict[JobNumber, dict[Ref, OccurrenceRow]] = defaultdict(dict)
        self._trails: defaultdict[Ref, list[TransitionRow]] = defaultdict(list)
        """The stored transitions of each occurrence."""

    # -- events of the world -----------------------------------------------------------------------------------------

    def began(self, run: SimulatedRun) -> None:
        """Check a task that has really started."""
        attempt = run.attempt
        if attempt in self._launched:
            by = self._launched[attempt].incarnation
            self._add(
                Rule.ONE_START, f"{run.name} begins on {run.process.incarnation}, and began on {by}", run.began_at
            )
        elif attempt not in self._launchable:
            self._add(Rule.GATED, f"{run.name} begins, and no committed write allows it", run.began_at)
        else:
            writer, run.allowed_at = self._launchable[attempt]
            if writer is not run.process:
                who = "nobody" if writer is None else writer.incarnation
                message = f"{run.name} begins on {run.process.incarnation}, and was written by {who}"
                self._add(Rule.GATED, message, run.began_at)
        self._launched[attempt] = run.process

    def crashed(self, process: Process, at: int) -> None:
        """Record the crash of a process."""
        if process.incarnation in self._numbers:
            self._crashed_at[self._numbers[process.incarnation]] = at

    def see(self, commit: Commit) -> None:
        """Check a commit directly after it is made."""
        for look in self.others:
            look(commit)
        by = self._nodes(commit)
        self._zone_data(commit)
        rows = commit.changed(OCCURRENCES)
        if rows:
            for before, after in rows:
                if after is None and before is not None and before.status not in FINAL:
                    self._keys.pop(before.key, None)  # a collapsed range now covers its instant
                    self._unstarted[before.job].pop(before.ref, None)
                if after is not None:
                    self._row(commit.at, by, before, after)
                    self._note_unstarted(after)
                    if after.window is not None and after.kind.is_by_schedule:
                        self._windows[after.job][after.ref] = after.window
        if isinstance(commit.request, Writing):
            self._writing(commit, commit.request, {after.ref: before for before, after in rows if after is not None})
        self._attempts(commit)
        for before, after in commit.changed(SWEEP):
            if before is not None and (after.watermark < before.watermark or after.watermark > commit.at):
                self._add(Rule.WATERMARK, f"it went from {before.watermark} to {after.watermark}", commit.at)
            elif before is not None and after.watermark > before.watermark:
                self._promised(commit.at, before.watermark, after.watermark)

    def _zone_data(self, commit: Commit) -> None:
        """Record new zone data, which changes the expected instants (protocol rule 5)."""
        for _, entry in commit.changed(ENTRIES):
            if entry.kind is EntryKind.ZONE:
                release = msgspec.json.decode(entry.body)["release"]
                wrong = self.expectations.zone_entered(entry.subject, release, entry.effective_from)
                if wrong is not None:
                    self._add(Rule.ZONE_DATA, wrong, commit.at)

    def _nodes(self, commit: Commit) -> NodeNumber | None:
        """Record nodes that join, send heartbeats and leave. Return the node that made the commit."""
        changed = [(before, after) for before, after in commit.changed(NODES) if after is not None]
        self._numbers.update({after.incarnation: after.number for before, after in changed if before is None})
        self._machines.update({after.number: after.name for _, after in changed})
        by = None if commit.by is None else self._numbers.get(commit.by.incarnation)
        if by is not None:
            self._committed_at[by] = commit.at
        for before, after in changed:
            self.silence.see(commit.at, by, before, after)
        return by

    def _promised(self, at: int, start: int, end: int) -> None:
        """Check that all instants in `[start, end)` are decided when the watermark passes them (protocol rule 19)."""
        for job, instant in self.expectations.between(start, end):
            if Key(instant, job, Kind.SCHEDULED) in self._keys:
                continue
            if not any(window.start <= instant < window.end for window in self._windows[job].values()):
                self._add(Rule.WATERMARK, f"it passed instant {instant} of job {job}, which is not decided", at)

    def _add(self, rule: Rule, message: str, at: int) -> None:
        self.violations.add(rule, message, at)

    # -- one occurrence ----------------------------------------------------------------------------------------------

    def _row(self, at: int, by: NodeNumber | None, before: OccurrenceRow | None, after: OccurrenceRow) -> None:
        if before is None:
            known = self._keys.setdefault(after.key, after.ref)
            if known != after.ref:
                self._add(Rule.ONE_ROW, f"{_shown(after)} is there already, as occurrence {known}", at)
            return
        if before.status in FINAL and after.status is not before.status and not _is_restored(before, after):
            self._add(Rule.FINAL, f"{_shown(after)} went from {before.status} to {after.status}", at)
        self._fence(at, by, before, after)
        if before.started_at is not None and after.status in _TAKEN_AS:
            self._in_flight(at, by, before, after)
        if before.status is OccurrenceState.QUEUED and after.status is OccurrenceState.PENDING:
            self._in_slot_since[after.ref] = at
        if before.started_at is None and after.started_at is not None:
            self._in_slot_since.setdefault(after.ref, at)
            self._start(at, before, after)
        if after.status is OccurrenceState.SKIPPED and before.status is not OccurrenceState.SKIPPED:
            self._skip(at, after)
        if after.status in FINAL:
            self._running[after.job].pop(after.ref, None)
        if after.holds != before.holds:
            self._shares(at, before, after)

    def _fence(self, at: int, by: NodeNumber | None, before: OccurrenceRow, after: OccurrenceRow) -> None:
        if after.fence > before.fence:
            self.taken[after.ref].append(Taken(at, after.fence, after.owner))
            return
        who = "somebody" if by is None else f"node {by}"
        if after.fence < before.fence:
            self._add(Rule.FENCE, f"{_shown(after)}: fence {before.fence} became {after.fence}", at)
        elif (
            before.owner is not None
            and before.owner != by
            and (before.status, before.owner)
            != (
                after.status,
                after.owner,
            )
        ):
            message = (
                f"{_shown(after)} belongs to node {before.owner} under fence {before.fence}; {who} changed it from "
                f"{before.status} to {after.status} under the same fence"
            )
            self._add(Rule.FENCE, message, at)

    def _in_flight(self, at: int, by: NodeNumber | None, before: OccurrenceRow, after: OccurrenceRow) -> None:
        if before.owner is None or before.owner == by or before.fence == after.fence:
            return  # the owner wrote it, or the write only requests a cancellation
        if by is not None and self._machines.get(before.owner) == self._machines.get(by):
            return  # a later process of the same machine: the owner's process is gone
        silent_for = self.silence.of(before.owner, at)
        if silent_for < self._silence_min:
            message = (
                f"{_shown(before)} was running on node {before.owner}, which was heard of {silent_for} µs ago, and "
                f"node {by} took it for dead"
            )
            self._add(Rule.DEAD, message, at)

    def _note_unstarted(self, row: OccurrenceRow) -> None:
        """Record scheduled occurrences that have not started, by job."""
        if row.kind is Kind.SCHEDULED and row.started_at is None and row.status not in FINAL:
            self._unstarted[row.job][row.ref] = row
        else:
            self._unstarted[row.job].pop(row.ref, None)

    def _in_order(self, at: int, row: OccurrenceRow) -> None:
        """Check that no older instant of the job waits when a recovery run starts (R2).

        An instant with jitter may become due later than its successors. An instant may also wait until a run is known
        to be alive or dead, and may have to be skipped for that run.
        """
        for other in self._unstarted[row.job].values():
            reason = read_reason(other.reason)
            is_unsure = reason is not None and reason.kind is ReasonKind.UNSURE
            if other.instant < row.instant and other.due_at == other.instant and not is_unsure:
                self._add(Rule.ORDER, f"{_shown(row)} started before {_shown(other)}, which is {other.status}", at)

    def _start(self, at: int, before: OccurrenceRow, after: OccurrenceRow) -> None:
        self.started_under[after.ref] = after.fence
        if at < before.due_at:
            self._add(
                Rule.EARLY, f"{_shown(after)} is due at {before.due_at} and started {before.due_at - at} µs early", at
            )
        late_by = at - before.due_at
        sweep = self._backend.rows(SWEEP).get(THE_ONE)
        if late_by > self._late_for and sweep is not None and is_for_the_sweep(before, sweep.watermark):
            self._add(Rule.OVERDUE, f"{_shown(after)} started {late_by} µs late, and no sweep had decided it", at)
        if after.kind is Kind.SCHEDULED and after.window is None:
            why_not = self.expectations.why_not(after.job, after.instant)
            if why_not is not None:
                self._add(Rule.EXPECTED, f"{_shown(after)} started, and {why_not}", at)
        if self._overlap(after) is Overlap.ALLOW:
            return
        if after.is_recovery:
            self._in_order(at, after)
        running = self._running[after.job]
        if running:
            others = ", ".join(str(ref) for ref in running)
            self._add(Rule.OVERLAP, f"{_shown(after)} started while occurrence {others} of its job was running", at)
        running[after.ref] = None

    def _skip(self, at: int, row: OccurrenceRow) -> None:
        """Check the run that an occurrence is skipped for (X6).

        If the occurrence is late but not overdue, that run must have had the overlap slot at the due time.
        """
        reason = read_reason(row.reason)
        if reason is None or reason.kind is not ReasonKind.OVERLAPS or reason.ref is None:
            return
        self._skip_for_dead(at, row, reason.ref)
        since = self._in_slot_since.get(reason.ref, 0)
        if since >= row.due_at and at <= row.due_at + self._late_for:
            late = since - row.due_at
            self._add(Rule.SKIPPED, f"{_shown(row)} was due {late} µs before occurrence {reason.ref} got the slot", at)

    def _skip_for_dead(self, at: int, row: OccurrenceRow, ref: Ref) -> None:
        """Check that the run's node had not crashed before the due time, unless a later commit of it arrived."""
        holder = self._backend.rows(OCCURRENCES).get((ref,))
        if holder is None or holder.owner is None or holder.started_at is None:
            return
        crashed_at = self._crashed_at.get(holder.owner)
        if crashed_at is None or max(crashed_at, self._committed_at.get(holder.owner, 0)) >= row.due_at:
            return
        message = f"{_shown(row)} was skipped for occurrence {ref} of node {holder.owner}, which died at {crashed_at}"
        self._add(Rule.DEAD_RUN, message, at)

    def _overlap(self, row: OccurrenceRow) -> Overlap:
        return self._config(row).job.overlap

    def _config(self, row: OccurrenceRow) -> FrozenConfig:
        body = row.own_config if row.config is None else self._backend.rows(CONFIGS)[row.config,].body
        assert body is not None, "what has started has a configuration"
        return frozen_config(body)

    def _shares(self, at: int, before: OccurrenceRow, after: OccurrenceRow) -> None:
        """Check that the new shares of a row exceed no limit."""
        for name in _names(before.holds):
            self._holders[name].pop(after.ref, None)
        for name in _names(after.holds):
            holders = self._holders[name]
            holders[after.ref] = None
            capacity = self._config(after).job.max_active if name.startswith("job/") else self._limits.get(name)
            if capacity is not None and len(holders) > capacity:
                held = ", ".join(map(str, holders))
                self._add(Rule.LIMIT, f"{_shown(after)}: limit {name} has {capacity} shares, held by {held}", at)

    # -- writes of an owner ------------------------------------------------------------------------------------------

    def _writing(self, commit: Commit, request: Writing, before: Mapping[Ref, OccurrenceRow | None]) -> None:
        """Check that each effective change comes from the owner, and is made only once."""
        touched = {after.ref for table in (TASKS, ATTEMPTS) for _, after in commit.changed(table) if after is not None}
        by_ref: dict[Ref, list[OwnerWrite]] = {}
        for change in request.changes:
            by_ref.setdefault(change.ref, []).append(change)
        for ref, changes in by_ref.items():
            now = self._backend.rows(OCCURRENCES).get((ref,))
            row = before.get(ref) or now
            if row is None or now is None or now.fence != row.fence or (ref not in before and ref not in touched):
                continue  # no effect of this request: it was refused, or the row got a free overlap slot
            is_end = any(step.to in FINAL for change in changes for step in change.steps)
            if all(change.sequence <= row.sequence for change in changes) and not (is_end and row.status not in FINAL):
                made = ", ".join(str(change.sequence) for change in changes)
                self._add(
                    Rule.STALE, f"{_shown(row)} had made write {row.sequence}, and took write {made} again", commit.at
                )
            if any((row.owner, row.fence) == (request.owner, change.fence) for change in changes):
                continue  # the owner wrote it; an older change in the batch, under another fence, was refused
            for change in changes:
                message = (
                    f"{_shown(row)} belongs to node {row.owner} under fence {row.fence}, and took write "
                    f"{change.sequence} of node {request.owner} under fence {change.fence}"
                )
                self._add(Rule.STALE, message, commit.at)

    def handle(self, at: int, request: object, answer: object) -> None:
        """Check that the store confirms no write of a node that has lost the occurrence."""
        if not isinstance(request, Writing) or not isinstance(answer, list):
            return
        rows = self._backend.rows(OCCURRENCES)
        for change, written in zip(request.changes, answer, strict=False):  # a part of a batch may be written alone
            row = rows.get((change.ref,))
            if not isinstance(written, Written) or written.ref != change.ref or row is None:
                continue
            if (row.owner, row.fence) != (request.owner, change.fence):
                message = (
                    f"{_shown(row)} belongs to node {row.owner} under fence {row.fence}, and node {request.owner} was "
                    f"told that its write {change.sequence} under fence {change.fence} stands"
                )
                self._add(Rule.STALE, message, at)

    def _attempts(self, commit: Commit) -> None:
        for _, line in commit.changed(TRANSITIONS):
            if line is not None:
                self._trails[line.ref].append(line)
        for before, after in commit.changed(OCCURRENCES):
            if before is None or after is None:
                continue
            if before.started_at is None and after.started_at is not None:
                for attempt in all_attempts(after, self._trails[after.ref], ()):  # the attempt in the row, if any
                    self._allow(attempt, commit)
        for before, after in commit.changed(ATTEMPTS):
            if after is None:
                continue
            key = AttemptKey(after.ref, after.place, after.number)
            if before is None:
                self._allow(after, commit)
            elif before.status in TASK_FINAL and after.status is not before.status:
                message = (
                    f"occurrence {key.ref} task {key.place} attempt {key.number} was {before.status}, is {after.status}"
                )
                self._add(Rule.ATTEMPT, message, commit.at)

    def _allow(self, attempt: AttemptRow, commit: Commit) -> None:
        if attempt.status in (TaskState.RUNNING, TaskState.PENDING):
            key = AttemptKey(attempt.ref, attempt.place, attempt.number)
            self._launchable.setdefault(key, (commit.by, commit.at))


def _is_restored(before: OccurrenceRow, after: OccurrenceRow) -> bool:
    """True if an update restores an occurrence that an earlier update had withdrawn (R7)."""
    return before.is_withdrawn and (before.status, after.status) == _WITHDRAWN


def _names(holds: str | None) -> list[str]:
    return [] if holds is None else list(msgspec.json.decode(holds))


def _shown(row: OccurrenceRow) -> str:
    return f"occurrence {row.ref} (job {row.job}, {row.kind}, instant {row.instant})"


@lru_cache(maxsize=4_096)
def frozen_config(body: str) -> FrozenConfig:
    """Return the configuration that an occurrence was started with."""
    config: Any = msgspec.json.decode(body, type=FrozenConfig)
    assert isinstance(config, FrozenConfig)
    return config
