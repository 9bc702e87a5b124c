"""A small history that is as it should be, made by the ledger itself, and the means to falsify it afterwards."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from itinerary.model.attempts import AttemptKey
from itinerary.model.codec import to_json
from itinerary.model.config import freeze
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, OwnerWrite, Started, StartRequest, Step, Written
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import T, Work
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OCCURRENCES
from itinerary.testing.processes import Process
from tests.engines import Wrapped
from tests.simulation.checker import RunChecks, Snapshot, check_settled, check_store
from tests.simulation.checker.commits import Witness
from tests.simulation.checker.violations import Violations
from tests.simulation.world.backend import Backend
from tests.simulation.world.disturbances import Disturbances
from tests.simulation.world.run_log import SimulatedEnd, SimulatedRun, SimulatedRunLog
from tests.simulation.world.tasks import result_of

__all__ = ["MINUTE", "NOON", "Book", "now"]

NOON = 1_774_699_200 * SECOND
MINUTE = 60 * SECOND


class Clock:
    begins_at = NOON

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> int:
        return self.now


def now(work: Awaitable[T]) -> T:
    """Run a coroutine that waits for nothing."""
    running = work.__await__()
    try:
        next(running)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    raise AssertionError("it waits")


class Hand(Wrapped):
    """The store, in the hand of one process."""

    def __init__(self, backend: Backend, process: Process) -> None:
        super().__init__(backend)
        self.backend, self.process = backend, process

    async def write(self, work: Work[T]) -> T:
        return self.backend.commit(work, self.process)


class Book:
    """A store with one job and one node; a task that ran once for each of its instants, and wrote that down."""

    def __init__(self, overlap: Overlap = Overlap.QUEUE, **overrides: Any) -> None:
        self.clock = Clock()
        self.backend = Backend(self.clock)  # type: ignore[arg-type]  # it is only called
        self.violations = Violations()
        self.witness = Witness(self.backend, {}, self.violations, silence_min=0, late_for=3_600 * SECOND)
        self.backend.witness = self.witness
        self.process = Process("a", 1)
        self.store = EngineStore(Hand(self.backend, self.process))
        now(self.store.open())
        self.log = SimulatedRunLog()
        self.disturbances = Disturbances()
        self.overrides = Overrides(overlap=overlap, **overrides)
        body = to_json(Definition(schedule={"every": "1m"}, overrides=self.overrides)).decode()
        entry = TimelineEntryRequest(
            job="backup", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body=body
        )
        (entered,) = now(self.store.amend([entry]))
        assert isinstance(entered, EntryAccepted)
        self.job: JobNumber = entered.job
        self.revision = entered.revision
        self.node: NodeNumber = now(self.store.join("a/1", "a", "{}"))

    # -- what the ledger does ----------------------------------------------------------------------------------------

    def claim(self, minute: int) -> Claimed:
        instant = NOON + minute * MINUTE
        wanted = ClaimRequest(Key(instant, self.job, Kind.SCHEDULED), 1, instant)
        claims = now(self.store.claim(self.node, self.revision, [wanted]))
        assert isinstance(claims, list)
        return claims[0]

    def start(self, claimed: Claimed) -> Any:
        config = to_json(freeze(self.overrides, {})).decode()
        request = StartRequest(
            claimed.ref,
            None,
            claimed.adjustments,
            config,
            3_600 * SECOND,
            self.overrides.overlap or Overlap.SKIP,
            tasks=(TaskRow(claimed.ref, 0, "main", TaskState.RUNNING),),
            attempts=(AttemptRow(claimed.ref, 0, 1, TaskState.RUNNING, self.clock()),),
        )
        (answer,) = now(self.store.start(self.node, self.revision, [request], 0))
        return answer

    def end(self, started: Started, to: OccurrenceState = OccurrenceState.COMPLETED) -> None:
        key = AttemptKey(started.ref, 0, 1)
        status = TaskState.SUCCESS if to is OccurrenceState.COMPLETED else TaskState.FAILED
        result = result_of(key) if to is OccurrenceState.COMPLETED else None
        change = OwnerWrite(
            started.ref,
            started.fence,
            started.sequence + 1,
            (Step(to),),
            (TaskRow(started.ref, 0, "main", status, result=result),),
            (AttemptRow(started.ref, 0, 1, status, started.started_at, self.clock()),),
        )
        (answer,) = now(self.store.write(self.node, [change]))
        assert isinstance(answer, Written), answer

    # -- and what really happens -------------------------------------------------------------------------------------

    def runs(self, ref: Ref, place: int = 0, number: int = 1) -> SimulatedRun:
        """A task begins, now."""
        row = self.backend.rows(OCCURRENCES)[ref,]
        run = SimulatedRun(AttemptKey(ref, place, number), "backup", "main", row.key, self.process, self.clock())
        self.log.begin(run)
        return run

    def over(self, run: SimulatedRun, ending: SimulatedEnd = SimulatedEnd.SUCCEEDED) -> None:
        self.log.end(run, self.clock(), ending)

    def minute(self, number: int, *, lasts: int = 10) -> SimulatedRun:
        """An occurrence from its claim to its end, with one task that succeeds."""
        claimed = self.claim(number)
        self.clock.now = NOON + number * MINUTE + 1
        started = self.start(claimed)
        assert isinstance(started, Started), started
        run = self.runs(claimed.ref)
        self.clock.now += lasts * SECOND
        self.over(run)
        self.end(started)
        return run

    def falsify(self, table: Any, *rows: Any) -> None:
        """Write rows past the ledger, and past the witness."""
        self.backend.witness = None
        self.backend.commit(lambda tx: tx.put(table, rows))

    def without(self, table: Any, *prefixes: Any) -> None:
        self.backend.witness = None
        self.backend.commit(lambda tx: tx.remove(table, prefixes))

    def check(self, minutes: int | None = None) -> Violations:
        """Everything that the checker looks at, of the first minutes, or of those that have an occurrence."""
        snapshot = self.backend.commit(Snapshot)
        if minutes is None:
            minutes = max((row.instant - NOON) // MINUTE + 1 for row in snapshot.occurrences.values())
        owed = {self.job: [NOON + minute * MINUTE for minute in range(minutes)]}
        now(check_store(EngineStore(self.backend), owed, NOON, NOON + minutes * MINUTE, self.violations))
        check_settled(snapshot, self.violations)
        taken = self.witness.taken
        RunChecks(snapshot, self.log, taken, self.disturbances, self.violations).check(prompt_within=SECOND)
        return self.violations
