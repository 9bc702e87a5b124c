"""What `itinerary audit` prints: a line for the whole, one for each fault, and how far it is."""

from __future__ import annotations

from io import StringIO

from itinerary.audit import Audited, Check, Finding, Progress
from itinerary.cli.auditing import ProgressLine, words
from itinerary.model.rows import Ref
from itinerary.schedules.durations import SECOND

NOON = 1_774_699_200 * SECOND


def audited(*findings: Finding, lost: int = 0, wrong: int = 0) -> Audited:
    return Audited(
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
    )


def test_each_fault_is_a_line_and_those_that_are_left_out_are_counted() -> None:
    lost = Finding(Check.OWED, "backup", NOON, "is lost: nothing was decided about it")
    wrong = Finding(Check.TRAIL, "backup", NOON + SECOND, "is failed, and its trail ends with running", Ref(7))
    sums = "60 expected, 57 decided exactly once, 3 lost, 0 doubled, 0 unexpected, 0 unknown"
    assert words(audited(lost, wrong, lost=3, wrong=1)).splitlines() == [
        f"2026-03-28T12:00:00Z to 2026-03-28T13:00:00Z: {sums}; 59 occurrences looked at, 1 other faults",
        "  backup:1774699200 (2026-03-28T12:00:00Z) is lost: nothing was decided about it",
        "  backup:1774699201 (2026-03-28T12:00:01Z, occurrence 7) is failed, and its trail ends with running",
        "  … and 2 more",
        "  cannot be enumerated: odd: its schedule does not advance",
    ]


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def said(out: StringIO, *moments: float) -> str:
    """What is said at these moments, in seconds since the audit began."""
    now = [0.0]
    line = ProgressLine(out, lambda: now[0])
    for moment in moments:
        now[0] = moment
        line.hear(Progress(NOON, NOON + 15 * SECOND, NOON + 60 * SECOND, 1_500))
    line.close()
    return out.getvalue()


def test_progress_is_told_only_if_it_takes_long() -> None:
    assert said(StringIO(), 1, 9) == ""
    assert said(StringIO(), 1, 11, 12) == " 25%  up to 2026-03-28T12:00:15Z, 1500 occurrences\n"


def test_a_terminal_has_one_line_that_is_gone_in_the_end() -> None:
    shown = " 25%  up to 2026-03-28T12:00:15Z, 1500 occurrences"
    assert said(Terminal(), 0.1) == ""
    assert said(Terminal(), 1, 2) == f"\r{shown}\r{shown}\r{' ' * len(shown)}\r"
