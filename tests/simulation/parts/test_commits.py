"""The witness: what must be so at every commit, and a bad commit for each of its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.core.timeline.zone_history import StoredZone
from itinerary.model.attempts import AttemptKey
from itinerary.model.codec import to_json
from itinerary.model.config import freeze
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import (
    AttemptRow,
    ConfigRow,
    EntryKind,
    EntryRow,
    JobNumber,
    Key,
    NodeNumber,
    NodeRow,
    OccurrenceRow,
    Ref,
    SweepRow,
)
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import OwnerWrite, Refusal, Refused, Written
from itinerary.schedules import ZoneSource, packaged_zone
from itinerary.stores.tables import ATTEMPTS, CONFIGS, ENTRIES, NODES, OCCURRENCES, SWEEP
from itinerary.stores.transaction import Transaction
from itinerary.testing.processes import Process
from tests.simulation.checker.commits import Witness
from tests.simulation.checker.expectations import InstantsOf
from tests.simulation.checker.violations import Rule, Violations
from tests.simulation.parts.scene import EPOCH
from tests.simulation.world.backend import Backend
from tests.simulation.world.options import ZoneRelease
from tests.simulation.world.run_log import SimulatedRun
from tests.simulation.world.store import Writing

pytestmark = pytest.mark.spec("U6", "simulation")

SKIP, ALLOW = 1, 2
A, B = Process("a", 1), Process("b", 1)
S = OccurrenceState
SILENCE = 15_000_000
GRACE = 30_000_000


class Clock:
    begins_at = EPOCH

    def __init__(self) -> None:
        self.at = EPOCH

    def __call__(self) -> int:
        return self.at


def at(*instants: int) -> InstantsOf:
    """What a schedule says that has these instants, wherever it is."""
    return lambda start, end, _: [instant for instant in instants if start <= instant < end]


class Court:
    """A store, a witness, and rows that are written without asking any ledger."""

    def __init__(self) -> None:
        self.violations = Violations()
        self.clock = Clock()
        self.backend = Backend(self.clock)  # type: ignore[arg-type]  # it is only called
        releases = (ZoneRelease("2026a"), ZoneRelease("2026b", {"Europe/Berlin": 3600}))
        self.witness = Witness(
            self.backend,
            {"api": 1},
            self.violations,
            silence_min=SILENCE,
            late_for=GRACE,
            zone_data={release.name: release.zone for release in releases},
        )
        self.backend.witness = self.witness
        self.put(
            None, (NODES, [NodeRow(NodeNumber(n), f"{name}/1", name, "{}", 0) for n, name in ((1, "a"), (2, "b"))])
        )
        for number, overlap in ((SKIP, Overlap.SKIP), (ALLOW, Overlap.ALLOW)):
            config = freeze(Overrides(overlap=overlap, max_active=1), {}, occurrence=NOTHING)
            self.put(None, (CONFIGS, [ConfigRow(number, str(number), to_json(config).decode())]))

    def put(self, by: Process | None, *tables: tuple[Any, Sequence[Any]], request: object = None) -> None:
        def work(tx: Transaction) -> None:
            for table, rows in tables:
                tx.put(table, rows)

        self.backend.commit(work, by, request)

    def rows(self, *rows: OccurrenceRow, by: Process | None = A) -> None:
        self.put(by, (OCCURRENCES, rows))

    def rules(self) -> list[Rule]:
        return self.violations.rules()


def row(ref: int = 1, **values: Any) -> OccurrenceRow:
    instant = values.pop("instant", EPOCH - ref * 1_000_000)
    plain = OccurrenceRow(
        Ref(ref),
        instant,
        JobNumber(1),
        Kind.SCHEDULED,
        "",
        1,
        values.pop("due_at", instant),
        is_recovery=False,
        priority=0,
        created_at=EPOCH,
        created_by=NodeNumber(1),
        status=values.pop("status", S.PRERUN),
        owner=values.pop("owner", NodeNumber(1)),
        fence=values.pop("fence", 1),
    )
    return replace(plain, **values)


def started(ref: int = 1, config: int = SKIP, **values: Any) -> OccurrenceRow:
    return row(ref, status=S.RUNNING, started_at=EPOCH, config=config, **values)


def fine(court: Court) -> None:
    """A life as it should be: claimed, started, written, taken over, ended."""
    court.rows(row())
    court.put(A, (OCCURRENCES, [started(sequence=1)]), (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.RUNNING)]))
    change = OwnerWrite(Ref(1), 1, 2)
    court.put(A, (OCCURRENCES, [started(sequence=2)]), request=Writing(NodeNumber(1), [change]))
    court.rows(started(sequence=3, fence=2, owner=NodeNumber(2)), by=B)
    court.rows(replace(started(fence=2, owner=NodeNumber(2)), status=S.COMPLETED), by=B)


def twice(court: Court) -> None:
    court.rows(row(1, instant=EPOCH), row(2, instant=EPOCH))


def taken_under_the_same_fence(court: Court) -> None:
    court.rows(row())
    court.rows(row(owner=NodeNumber(2)), by=B)


def lowered_fence(court: Court) -> None:
    court.rows(row(fence=3))
    court.rows(row(fence=2))


def ended_by_another(court: Court) -> None:
    court.rows(row())
    court.rows(row(status=S.CANCELLED), by=B)


def left_a_final_state(court: Court) -> None:
    court.rows(row(status=S.COMPLETED))
    court.rows(row(status=S.RUNNING, fence=2))


def started_early(court: Court) -> None:
    court.rows(row(due_at=EPOCH + 1))
    court.rows(started(due_at=EPOCH + 1))


def started_what_its_job_does_not_have(court: Court) -> None:
    court.witness.expectations.scheduled(JobNumber(1), 0, EPOCH, at(EPOCH - 3_000_000, EPOCH - 1_000_000))
    court.witness.expectations.scheduled(JobNumber(1), EPOCH - 2_000_000, EPOCH, at(EPOCH - 500_000))
    court.rows(row(1))
    court.rows(started(1))


def started_what_its_zone_does_not_have_any_more(court: Court) -> None:
    packaged, instant = zone_entry("2026a", EPOCH - 5_000_000), EPOCH - 1_000_000

    def unless_new(start: int, end: int, zones: ZoneSource) -> list[int]:
        is_old = zones("Europe/Berlin") == packaged_zone("Europe/Berlin")
        return [instant] if is_old and start <= instant < end else []

    court.put(None, (ENTRIES, [packaged]))
    court.witness.expectations.scheduled(JobNumber(1), 0, EPOCH, unless_new)
    court.rows(row(1))
    court.put(A, (ENTRIES, [zone_entry("2026b", EPOCH - 2_000_000, 2)]))
    court.rows(started(1))


def entered_older_zone_data(court: Court) -> None:
    court.put(None, (ENTRIES, [zone_entry("2026b", EPOCH - 2_000_000)]))
    court.put(A, (ENTRIES, [zone_entry("2026a", EPOCH - 1_000_000, 2)]))


def zone_entry(release: str, at: int, revision: int = 1) -> EntryRow:
    body = to_json(StoredZone.of(packaged_zone("Europe/Berlin"), release)).decode()
    return EntryRow(revision, 0, JobNumber(0), EntryKind.ZONE, str(revision), at, at, "a", 0, "Europe/Berlin", body)


def started_what_is_paused(court: Court) -> None:
    court.witness.expectations.scheduled(JobNumber(1), 0, EPOCH, at(EPOCH - 2_000_000, EPOCH - 1_000_000))
    court.witness.expectations.paused(JobNumber(1), EPOCH - 1_500_000)
    court.witness.expectations.resumed(JobNumber(1), EPOCH - 500_000)
    court.rows(row(1))
    court.rows(started(1))


def started_beside_another(court: Court) -> None:
    court.rows(row(1), row(2))
    court.rows(started(1))
    court.rows(started(2))


def skipped_for_one_that_began_after_it_was_due(court: Court) -> None:
    overlaps_the_first(court, due_at=EPOCH, at=EPOCH + GRACE)


def started_long_after_it_was_due(court: Court) -> None:
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 60_000_000)]))
    court.rows(row(1))
    court.clock.at = EPOCH + GRACE + 1
    court.rows(started(1))


def skipped_for_one_that_was_called_after_it_was_due(court: Court) -> None:
    court.rows(row(1, status=S.QUEUED, owner=None), row(2))
    court.rows(row(1, status=S.PENDING, owner=None, fence=2))
    court.rows(row(2, status=S.SKIPPED, reason="overlaps occurrence 1"))


def overlaps_the_first(court: Court, *, due_at: int, at: int) -> None:
    """One begins, now; another, due then, is skipped for it at that moment."""
    court.rows(row(1), row(2, instant=due_at))
    court.rows(started(1))
    court.clock.at = at
    court.rows(row(2, instant=due_at, status=S.SKIPPED, reason="overlaps occurrence 1"))


def took_too_many_shares(court: Court) -> None:
    court.rows(row(1), row(2))
    court.rows(started(1, ALLOW, holds='["api"]'), started(2, ALLOW, holds='["api"]'))


def was_active_too_often(court: Court) -> None:
    court.rows(row(1), row(2))
    court.rows(started(1, ALLOW, holds='["job/1"]'), started(2, ALLOW, holds='["job/1"]'))


def wrote_under_a_stale_fence(court: Court) -> None:
    court.rows(row())
    court.rows(started(sequence=1, fence=2, owner=NodeNumber(1)))
    stale = OwnerWrite(Ref(1), 1, 2)
    court.put(A, (OCCURRENCES, [started(sequence=2, fence=2)]), request=Writing(NodeNumber(1), [stale]))


def told_that_a_stale_write_stands(court: Court) -> None:
    court.rows(row())
    court.rows(started(sequence=1, fence=2, owner=NodeNumber(1)))
    late = Writing(NodeNumber(1), [OwnerWrite(Ref(1), 1, 1)])
    court.backend.commit(lambda _: [Refused(Ref(1), Refusal.LOST)], A, late)
    assert court.rules() == []
    court.backend.commit(lambda _: [Written(Ref(1))], A, late)


def told_that_a_stale_write_stands_beside_one_that_does(court: Court) -> None:
    court.rows(row())
    court.rows(started(sequence=1, fence=2, owner=NodeNumber(1)))
    both = Writing(NodeNumber(1), [OwnerWrite(Ref(1), 1, 2), OwnerWrite(Ref(1), 2, 2)])
    court.put(A, (OCCURRENCES, [started(sequence=2, fence=2)]), request=both)
    court.backend.commit(lambda _: [Refused(Ref(1), Refusal.LOST), Written(Ref(1))], A, both)
    assert court.rules() == [], "the one was refused, the other was its owner's to make"
    court.backend.commit(lambda _: [Written(Ref(1)), Written(Ref(1))], A, both)


def wrote_twice(court: Court) -> None:
    court.rows(row())
    court.rows(started(sequence=4))
    again = OwnerWrite(Ref(1), 1, 4)
    attempt = (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.RUNNING)])
    court.put(A, attempt, request=Writing(NodeNumber(1), [again]))


def changed_an_attempt_that_had_ended(court: Court) -> None:
    court.put(A, (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.SUCCESS)]))
    court.put(A, (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.RUNNING)]))


def moved_the_watermark_back(court: Court) -> None:
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 5)]))
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 6)]))


def moved_the_watermark_too_far(court: Court) -> None:
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 5)]))
    court.put(A, (SWEEP, [SweepRow(0, EPOCH + 1)]))


def moved_the_watermark_past_what_is_not_decided(court: Court) -> None:
    court.witness.expectations.scheduled(JobNumber(7), 0, EPOCH, at(EPOCH - 3 * 1_000_000, EPOCH - 1_000_000))
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 5 * 1_000_000)]))
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 4 * 1_000_000)]))
    court.put(A, (SWEEP, [SweepRow(0, EPOCH - 2 * 1_000_000)]))


def run(by: Process) -> SimulatedRun:
    key = Key(EPOCH, JobNumber(1), Kind.SCHEDULED)
    return SimulatedRun(AttemptKey(Ref(1), 0, 1), "backup", "main", key, by, EPOCH)


def takes_for_dead(court: Court, *, silent_for: int) -> None:
    """A runs something and has a heartbeat; after so long B takes that from it."""
    court.rows(started())
    court.put(A, (NODES, [NodeRow(NodeNumber(1), "a/1", "a", "{}", 0, counter=1)]))
    court.clock.at += silent_for
    court.rows(replace(started(fence=2, owner=NodeNumber(2)), status=S.ORPHANED), by=B)


def taken_from_a_node_that_is_well(court: Court) -> None:
    takes_for_dead(court, silent_for=SILENCE - 1)


def taken_for_dead_because_the_store_was_away(court: Court) -> None:
    court.witness.silence.store_goes(EPOCH + 1_000_000)
    court.witness.silence.store_is_back(EPOCH + 2_000_000)
    takes_for_dead(court, silent_for=SILENCE)


def launched_unwritten(court: Court) -> None:
    court.witness.began(run(A))


def launched_by_another(court: Court) -> None:
    court.put(A, (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.RUNNING)]))
    court.witness.began(run(B))


def launched_twice(court: Court) -> None:
    court.put(A, (ATTEMPTS, [AttemptRow(Ref(1), 0, 1, TaskState.RUNNING)]))
    court.witness.began(run(A))
    court.witness.began(run(A))


def test_a_life_as_it_should_be_is_not_objected_to() -> None:
    court = Court()
    fine(court)
    court.put(A, (ATTEMPTS, [AttemptRow(Ref(1), 0, 2, TaskState.RUNNING)]))
    assert court.violations.found == []
    assert [(taken.fence, taken.owner) for taken in court.witness.taken[Ref(1)]] == [(2, 2)]


@pytest.mark.parametrize(
    ("due_at", "at"), [(EPOCH + 1, EPOCH + 2), (EPOCH - 1, EPOCH + GRACE)], ids=["while it ran", "beyond the grace"]
)
def test_what_is_skipped_for_one_that_ran_or_when_it_is_too_old_is_not_objected_to(due_at: int, at: int) -> None:
    court = Court()
    overlaps_the_first(court, due_at=due_at, at=at)
    assert court.violations.found == []


def test_what_is_taken_from_the_dead_is_not_objected_to() -> None:
    court = Court()
    takes_for_dead(court, silent_for=SILENCE)
    assert court.violations.found == []


def test_what_is_taken_from_a_node_that_has_left_is_not_objected_to() -> None:
    court = Court()
    court.put(A, (NODES, [NodeRow(NodeNumber(1), "a/1", "a", "{}", 0, left_at=EPOCH)]))
    court.rows(started())
    court.rows(replace(started(fence=2, owner=NodeNumber(2)), status=S.ORPHANED), by=B)
    assert court.violations.found == []


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        (twice, Rule.ONE_ROW),
        (taken_under_the_same_fence, Rule.FENCE),
        (lowered_fence, Rule.FENCE),
        (ended_by_another, Rule.FENCE),
        (left_a_final_state, Rule.FINAL),
        (started_early, Rule.EARLY),
        (started_what_its_job_does_not_have, Rule.EXPECTED),
        (started_what_is_paused, Rule.EXPECTED),
        (started_what_its_zone_does_not_have_any_more, Rule.EXPECTED),
        (entered_older_zone_data, Rule.ZONE_DATA),
        (started_beside_another, Rule.OVERLAP),
        (started_long_after_it_was_due, Rule.OVERDUE),
        (skipped_for_one_that_began_after_it_was_due, Rule.SKIPPED),
        (skipped_for_one_that_was_called_after_it_was_due, Rule.SKIPPED),
        (took_too_many_shares, Rule.LIMIT),
        (was_active_too_often, Rule.LIMIT),
        (wrote_under_a_stale_fence, Rule.STALE),
        (told_that_a_stale_write_stands, Rule.STALE),
        (told_that_a_stale_write_stands_beside_one_that_does, Rule.STALE),
        (wrote_twice, Rule.STALE),
        (changed_an_attempt_that_had_ended, Rule.ATTEMPT),
        (moved_the_watermark_back, Rule.WATERMARK),
        (moved_the_watermark_too_far, Rule.WATERMARK),
        (moved_the_watermark_past_what_is_not_decided, Rule.WATERMARK),
        (taken_from_a_node_that_is_well, Rule.DEAD),
        (taken_for_dead_because_the_store_was_away, Rule.DEAD),
        (launched_unwritten, Rule.GATED),
        (launched_by_another, Rule.GATED),
        (launched_twice, Rule.ONE_START),
    ],
)
def test_each_rule_is_broken_by_a_commit_that_breaks_it(story: Callable[[Court], None], rule: Rule) -> None:
    court = Court()
    story(court)
    assert court.rules() == [rule], court.violations.found
    assert str(court.violations.found[0]).startswith(str(rule))
