"""Pictures of time for a terminal: upcoming runs and history.

    upcoming     16:00        18:00               one line a job; each mark is a part of the time that is shown:
    backup       ●···········●···········         ● one run, 2 to 9 that number, + more, ○ skipped
    etl          444444444444444444444444

    strip        ▁▁▂▁▁▃█▁▁▁                       the duration of each run, beside the longest
                 ·····F··s·                       and its outcome: F failed, s skipped, · completed

On a terminal that has only ASCII, digits replace the blocks, and `*` and `o` replace the circles.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from itinerary.cli.output import UNLIMITED, draws, one_line, shown_state, told_for, width_of, wrapped
from itinerary.model.states import OccurrenceState
from itinerary.read.runs import RunView
from itinerary.read.upcoming import UpcomingRuns
from itinerary.schedules.durations import SECOND

__all__ = ["LETTERS", "drawn_strip", "drawn_timeline", "parts_for"]

_WIDE: Final = 120
"""The width of a picture where the width is unlimited."""
_TRACK_MIN: Final = 8
_NAME_MAX: Final = 28
_LABEL: Final = 6
"""The room for a time on the axis: `16:00` and a space."""
_STEPS: Final = tuple(
    timedelta(minutes=minutes)
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 20_160, 40_320, 80_640, 161_280)
)
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_DIGITS: Final = "12345678"
LETTERS: Final = {
    OccurrenceState.COMPLETED: "·",
    OccurrenceState.COMPLETED_WITH_ERRORS: "e",
    OccurrenceState.FAILED: "F",
    OccurrenceState.FAILED_STALE: "T",
    OccurrenceState.CANCELLED: "c",
    OccurrenceState.ORPHANED: "O",
    OccurrenceState.SKIPPED: "s",
    OccurrenceState.MISSED: "m",
}
"""A letter for each final state of an occurrence."""


# -- upcoming runs ---------------------------------------------------------------------------------------------------


def parts_for(console: Console) -> int:
    """Return the number of parts into which the time is divided at this width."""
    width = min(width_of(console), _WIDE)
    return max(width - _name_width(width) - 1, _TRACK_MIN)


def _name_width(width: int) -> int:
    return min(_NAME_MAX, width // 3)


def drawn_timeline(found: UpcomingRuns, console: Console) -> list[Text]:
    """Return a line for each job, under an axis of the local time."""
    room = _name_width(min(width_of(console), _WIDE))
    marks = _Marks(console)
    lines = [Text(" " * (room + 1) + line, "dim") for line in _axis(found.start, found.end, found.parts)]
    for job in found.jobs:
        lines += _tracked(one_line(job.job), room, marks.track(job.counts, is_passed_over=job.runs == 0))
    if found.more_jobs:
        lines += _tracked(f"{found.more_jobs:,} more", room, marks.track(found.more_counts, is_passed_over=False))
    return lines


def _tracked(name: str, room: int, track: Text) -> list[Text]:
    """Return a name and its track, on two lines if the name is long."""
    if cell_len(name) <= room:
        return [Text.assemble(name, " " * (room + 1 - cell_len(name)), track)]
    return [*wrapped(name, room + 1 + len(track)), Text.assemble(" " * (room + 1), track)]


class _Marks:
    """The marks for counts."""

    def __init__(self, console: Console) -> None:
        self._one, self._over, self._none = ("●", "○", "·") if draws(console) else ("*", "o", ".")

    def track(self, counts: Sequence[int], *, is_passed_over: bool) -> Text:
        """Return a mark for each part."""
        text = Text()
        for count in counts:
            if not count:
                text.append(self._none, "dim")
            elif is_passed_over:
                text.append(self._over, "yellow")
            else:
                text.append(self._one if count == 1 else str(count) if count < 10 else "+", "bold")
        return text


def _axis(start: datetime, end: datetime, parts: int) -> list[str]:
    """Return the axis: times above the parts in which they begin, as many as fit.

    If there are several days, the day is above its first time. Over many days, only the days are shown.
    """
    span, local = end - start, start.astimezone()
    step = next((step for step in _STEPS if parts * (step / span) >= _LABEL), _STEPS[-1])
    has_days = span > timedelta(days=1) and step < timedelta(days=1)
    times, days = [" "] * parts, [" "] * parts
    at = local.replace(hour=0, minute=0, second=0, microsecond=0)
    day = None
    while (at := (at + step).astimezone()) < end:
        place = int((at - local) / span * parts)
        if at < local or place + _LABEL - 1 > parts:
            continue
        times[place : place + 5] = f"{at:%m-%d}" if step >= timedelta(days=1) else f"{at:%H:%M}"
        if has_days and at.date() != day:
            days[place : place + 5] = f"{at:%m-%d}"
        day = at.date()
    return [line for line in ("".join(days).rstrip(), "".join(times).rstrip()) if line]


# -- history ---------------------------------------------------------------------------------------------------------


def drawn_strip(runs: Sequence[RunView], console: Console) -> list[Text]:
    """Return the durations and outcomes of the last runs that fit, oldest first, with a legend."""
    width = width_of(console)
    shown = list(reversed(runs[: min(width, _WIDE)]))
    durations = [run.took_seconds for run in shown]
    longest = max((took for took in durations if took is not None), default=0.0)
    blocks = _BLOCKS if draws(console) else _DIGITS
    bars, ends = Text(), Text()
    for run in shown:
        style = str(shown_state(run.state).style)
        bars.append(_bar(run.took_seconds, longest, blocks), style)
        ends.append(_letter(run.state, console), style)
    states = dict.fromkeys(run.state for run in shown)
    legend = ", ".join(f"{_letter(state, console)} {state}" for state in states)
    scale = "" if longest == 0 else f"; the longest took {told_for(int(longest * SECOND))}"
    limit = min(width, UNLIMITED)
    drawn = [bars, ends] if any(took is not None for took in durations) else [ends]
    return [*drawn, *wrapped(Text(f"oldest to newest: {legend}{scale}", "dim"), limit)]


def _bar(took: float | None, longest: float, blocks: str) -> str:
    if took is None:
        return " "
    part = took / longest if longest else 0.0
    return blocks[min(int(part * len(blocks)), len(blocks) - 1)]


def _letter(state: OccurrenceState, console: Console) -> str:
    letter = LETTERS.get(state, "?")
    return "." if letter == "·" and not draws(console) else letter
