"""What `itinerary audit` prints: a line for the whole, one for each fault, and how far it is."""

from __future__ import annotations

from msgspec.structs import replace

from itinerary.audit import AuditFinding, AuditProgress, AuditResult, Check, NotLookedAt
from itinerary.cli.audit import heard_by, words
from itinerary.model.rows import Ref
from itinerary.schedules.durations import SECOND

NOON = 1_774_699_200 * SECOND


def audited(*findings: AuditFinding, lost: int = 0, wrong: int = 0) -> AuditResult:
    return AuditResult(
        start="2026-03-28T12:00:00Z",
        end="2026-03-28T13:00:00Z",
        occurrences=59,
        expected=60,
        matched=60 - lost,
        lost=lost,
        doubled=0,
        unknown=0,
        unexpected=0,
        wrong=wrong,
        findings=findings,
        gaps=("odd: its schedule does not advance",),
        outcomes={"skipped": 14, "completed": 40, "failed": 2, "orphaned": 1},
        not_run=14 + lost,
    )


def test_what_was_not_looked_at_is_said() -> None:
    part = NotLookedAt(start="2026-03-28T13:00:00Z", end="2026-03-28T13:30:00Z", expected=30)
    lines = words(replace(audited(), not_looked_at=part)).splitlines()
    assert lines[2] == (
        "  not looked at: 2026-03-28T13:00:00Z to 2026-03-28T13:30:00Z, 30 due in it: the store has not decided "
        "everything there yet"
    )


def test_each_fault_is_a_line_and_those_that_are_left_out_are_counted() -> None:
    lost = AuditFinding(Check.OWED, "backup", NOON, "is lost: nothing was decided about it")
    wrong = AuditFinding(Check.TRAIL, "backup", NOON + SECOND, "is failed, and its trail ends with running", Ref(7))
    sums = "60 expected, 57 decided exactly once, 3 lost, 0 doubled, 0 unexpected, 0 unknown"
    assert words(audited(lost, wrong, lost=3, wrong=1)).splitlines() == [
        f"2026-03-28T12:00:00Z to 2026-03-28T13:00:00Z: {sums}; 59 occurrences looked at, 1 other faults",
        "  40 completed, 2 failed, 1 orphaned (begun, and lost with the node), 14 skipped, 3 lost; not run: 17",
        "  backup:1774699200 (2026-03-28T12:00:00Z) is lost: nothing was decided about it",
        "  backup:1774699201 (2026-03-28T12:00:01Z, occurrence 7) is failed, and its trail ends with running",
        "  … and 2 more",
        "  cannot be enumerated: odd: its schedule does not advance",
    ]


def test_how_far_it_is_goes_by_the_time_that_it_is_about() -> None:
    heard: list[tuple[int, int | None, str]] = []
    notify = heard_by(lambda done, total, note="": heard.append((done, total, note)))
    notify(AuditProgress(NOON, NOON + 15 * SECOND, NOON + 60 * SECOND, 1_500))
    assert heard == [(25, 100, "up to 2026-03-28T12:00:15Z, 1,500 occurrences")]
