"""The year of a job: a calendar, and a table by months.

Today is drawn without its numbers, so that the chart of a busy job stays unchanged for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Final

import msgspec

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.heatmap import DayDrawn, heatmap, level_of
from itinerary.web.charts.marks import Tone, tone_of
from itinerary.web.daily_counts import YEAR, CollapsedDays, YearCounts
from itinerary.web.pages.filters import job_url
from itinerary.web.pages.templates import drawn

__all__ = ["MonthSeen", "year_drawn"]

_EPOCH: Final = date(1970, 1, 1)
_WORST: Final = (Tone.BAD, Tone.WARN, Tone.BUSY, Tone.IDLE, Tone.GOOD)
"""The tones, worst first."""


class MonthSeen(msgspec.Struct, frozen=True):
    """A month in the table."""

    month: str
    count: int
    good: int
    warn: int
    bad: int
    href: str | None
    """The address of its history, from its last day back."""


def year_drawn(job: str, zone: str, year: YearCounts) -> str:
    """Render the part of the page."""
    first = _first_day(year.today)
    history = f"{job_url(job)}/history"
    covered = _covered(year.covered, first, year.today)
    most = max((day.states.total() for number, day in year.days.items() if number < year.today), default=0)
    days = [_day(number, year, covered.get(number), most, history) for number in range(first, year.today + 1)]
    total = sum(day.states.total() for number, day in year.days.items() if first <= number < year.today)
    bad = sum(1 for day in days if day.worst is Tone.BAD)
    title = f"A year of {job}, day by day: {total:,} before today, {bad} days on which something failed or was missed"
    return drawn(
        "job/year.html",
        chart=heatmap(days, title),
        zone=zone,
        total=total,
        bad=bad,
        months=list(_months(year, first, history)),
        is_whole=year.is_whole,
    )


def _first_day(today: int) -> int:
    """Return the Monday of the first week: whole weeks are drawn, up to the current one."""
    monday = today - (_EPOCH + timedelta(days=today)).weekday()
    return monday - (YEAR - 7)


def _tones(states: Mapping[OccurrenceState, int]) -> tuple[Tone | None, Tone | None]:
    """Return the most frequent tone, and the worst tone."""
    tones: Counter[Tone] = Counter()
    for state, count in states.items():
        tones[tone_of(state)] += count
    most = max(tones, key=lambda tone: (tones[tone], -_WORST.index(tone)), default=None)
    return most, next((tone for tone in _WORST if tones[tone]), None)


def _covered(covered: tuple[CollapsedDays, ...], first: int, today: int) -> dict[int, CollapsedDays]:
    """Return the worst collapsed range of each day that lies in one."""
    found: dict[int, CollapsedDays] = {}
    for one in covered:
        for day in range(max(one.first, first), min(one.last, today) + 1):
            before = found.get(day)
            if before is None or _WORST.index(tone_of(one.state)) < _WORST.index(tone_of(before.state)):
                found[day] = one
    return found


def _day(number: int, year: YearCounts, covered: CollapsedDays | None, most: int, history: str) -> DayDrawn:
    day = _EPOCH + timedelta(days=number)
    counted = year.days.get(number)
    states = Counter[OccurrenceState]() if counted is None else counted.states
    told = [f"{count:,} {state.replace('_', ' ')}" for state, count in states.most_common()]
    tone, worst = _tones(states)
    if covered is not None:
        told.append(f"among {covered.count:,} instants that were {covered.state.replace('_', ' ')}")
        tone, worst = _tones({**states, covered.state: 1 + states[covered.state]})
    if number == year.today:
        told = ["today, so far"]
    href = history if number == year.today else None
    if counted is not None and number != year.today:
        href = f"{history}?before={counted.place + 1}"
    count = states.total() or (1 if covered is not None else 0)
    return DayDrawn(day, level_of(count, most), tone, worst, f"{day:%a %Y-%m-%d}: {', '.join(told) or 'nothing'}", href)


def _months(year: YearCounts, first: int, history: str) -> Iterator[MonthSeen]:
    """Yield the months, newest first, without today: the pages of the history show it."""
    by_month: dict[str, list[int]] = {}
    for number in sorted((number for number in year.days if first <= number < year.today), reverse=True):
        by_month.setdefault(f"{_EPOCH + timedelta(days=number):%Y-%m}", []).append(number)
    for month, days in by_month.items():
        tones: Counter[Tone] = Counter()
        for number in days:
            for state, count in year.days[number].states.items():
                tones[tone_of(state)] += count
        href = f"{history}?before={year.days[days[0]].place + 1}"
        yield MonthSeen(month, tones.total(), tones[Tone.GOOD], tones[Tone.WARN], tones[Tone.BAD], href)
