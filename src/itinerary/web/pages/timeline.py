"""The timeline: past and upcoming runs of jobs, one lane each, from an hour to a week.

    /timeline?span=1d&at=2026-11-16T00:00Z&jobs=etl*&after=etl-lisbon

Without `at` the window follows the current time, which is at two thirds of it.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import urlencode

import msgspec
import numpy as np
from markupsafe import Markup

from itinerary.model.scopes import Scope
from itinerary.read.jobs import JobState
from itinerary.read.snapshot import StoreSnapshot, at
from itinerary.schedules.durations import SECOND
from itinerary.web.charts.gantt import Scale, bars, lane, mark_at, now_line, range_at, tick_lines
from itinerary.web.charts.marks import Tone
from itinerary.web.live import RenderedPage
from itinerary.web.pages.filters import run_url, span
from itinerary.web.pages.query_params import asked_text
from itinerary.web.pages.rendering import shown
from itinerary.web.pages.templates import drawn
from itinerary.web.poller import Poller
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page
from itinerary.web.timeline_data import Item, JobLane, Numbers, lanes_of

__all__ = ["TIMELINE"]

_MINUTE: Final = 60 * SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_SPANS: Final = {"1h": _HOUR, "6h": 6 * _HOUR, "1d": _DAY, "1w": 7 * _DAY}
_NAMES: Final = {"1h": "an hour", "6h": "6 hours", "1d": "a day", "1w": "a week"}
_TICKS: Final = {"1h": 10 * _MINUTE, "6h": _HOUR, "1d": 3 * _HOUR, "1w": _DAY}
_LANES_MAX: Final = 40
_MARKS_MAX: Final = 700
"""The maximum number of occurrences on a page that are drawn one by one."""
_MARKS_OF_ONE: Final = 120
_FAILED_MAX: Final = 4
"""In a lane with bars, the number of latest failures that are also drawn one by one."""
_EARLIEST: Final = 0
_LATEST: Final = int(datetime(2199, 1, 1, tzinfo=UTC).timestamp()) * SECOND
_HERE: Final = frozenset(set(JobState) - {JobState.REMOVED})


class TimelineParameters(msgspec.Struct, frozen=True):
    """The query parameters of the page."""

    span: str
    at: int | None
    """The start of the window; None: the window follows the current time."""
    jobs: str
    after: str

    @property
    def length(self) -> int:
        """The length of the window."""
        return _SPANS[self.span]

    def url(self, **other: str | int | None) -> str:
        """Return the address of this page with other parameters."""
        wanted = {"span": self.span, "at": self.at, "jobs": self.jobs, "after": self.after, **other}
        begin = wanted["at"]
        if isinstance(begin, int):
            wanted["at"] = f"{at(begin):%Y-%m-%dT%H:%M:%SZ}"
        return f"/timeline?{urlencode({key: value for key, value in wanted.items() if value})}"


class RenderedLane(msgspec.Struct, frozen=True):
    """A rendered lane."""

    job: str
    told: str
    picture: Markup
    counts: dict[str, int]
    unread: int
    gap: str | None


@page("/timeline", needs=Scope.READ)
async def timeline(request: Request) -> AnyResponse:
    """The page."""
    asked = TimelineParameters(
        _span(asked_text(request, "span") or "1h"),
        _at(asked_text(request, "at")),
        asked_text(request, "jobs"),
        asked_text(request, "after"),
    )
    return await shown(request, partial(_draw, request.app.server.rounds, asked))


TIMELINE = (timeline,)


def _span(text: str) -> str:
    if text not in _SPANS:
        raise RequestRefused(400, "Bad request", f"span: {text[:50]!r} is none of {', '.join(_SPANS)}")
    return text


def _at(text: str) -> int | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        instant = int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()) * SECOND
    except (ValueError, OverflowError):
        raise RequestRefused(400, "Bad request", f"at: {text[:50]!r} is no time such as 2026-11-16T12:00:00Z") from None
    return min(max(instant, _EARLIEST), _LATEST)


async def _draw(rounds: Poller, asked: TimelineParameters, snapshot: StoreSnapshot) -> RenderedPage:
    step = asked.length // 60
    start = snapshot.now // step * step - asked.length * 2 // 3 if asked.at is None else asked.at
    scale = Scale(start, start + asked.length)
    book = await rounds.book(snapshot)
    jobs, has_more = book.page(book.search(asked.jobs), _HERE, asked.after, _LANES_MAX)
    lanes = await lanes_of(snapshot, jobs, scale.start, scale.end)
    ticks = _ticks(asked, scale)
    single = _single(lanes)
    lines = tick_lines(scale.at(tick) for tick in ticks)
    rows = [_row(scale, lines, one, snapshot.now // step * step, is_single=one.job in single) for one in lanes]
    chart = drawn(
        "timeline/chart.html",
        rows=rows,
        ticks=[(scale.at(tick), at(tick)) for tick in ticks],
        is_week=asked.span == "1w",
        start=at(scale.start),
        end=at(scale.end),
        onward=asked.url(after=jobs[-1].name) if has_more else None,
        first=asked.url(after="") if asked.after else None,
        has_any=bool(snapshot.timeline.jobs),
        states=sorted({state for row in rows for state in row.counts}),
    )
    return RenderedPage(title="Timeline", parts={"window": _window(asked, scale, snapshot.now), "chart": chart})


def _window(asked: TimelineParameters, scale: Scale, now: int) -> Markup:
    """Render the controls of the window."""
    names = list(_SPANS)
    place = names.index(asked.span)
    is_live = asked.at is None

    def zoomed(name: str) -> str:
        """Return the address of another span, around the same middle; a live window stays live."""
        if is_live:
            return asked.url(span=name, at=None)
        return asked.url(span=name, at=(scale.start + scale.end) // 2 - _SPANS[name] // 2)

    half = asked.length // 2
    return drawn(
        "timeline/window.html",
        spans=[(name, _NAMES[name], zoomed(name), name == asked.span) for name in names],
        closer=zoomed(names[place - 1]) if place > 0 else None,
        wider=zoomed(names[place + 1]) if place + 1 < len(names) else None,
        earlier=asked.url(at=max(scale.start - half, _EARLIEST)),
        later=asked.url(at=min(scale.start + half, _LATEST)),
        today=None if is_live else asked.url(at=None),
        asked=asked,
        begin="" if asked.at is None else f"{at(asked.at):%Y-%m-%dT%H:%M:%SZ}",
        is_now=scale.start <= now < scale.end,
    )


def _ticks(asked: TimelineParameters, scale: Scale) -> list[int]:
    step = _TICKS[asked.span]
    return list(range(-(-scale.start // step) * step, scale.end, step))


def _single(lanes: list[JobLane]) -> set[str]:
    """Return the lanes in which each occurrence is drawn: the smallest ones, as many as a page holds."""
    left, chosen = _MARKS_MAX, set[str]()
    for one in sorted(lanes, key=lambda one: one.size):
        if len(one.unread) or one.size > min(left, _MARKS_OF_ONE):
            continue
        chosen.add(one.job)
        left -= one.size
    return chosen


def _row(scale: Scale, lines: Markup, one: JobLane, now: int, *, is_single: bool) -> RenderedLane:
    counts = Counter(item.state.replace("_", " ") for item in one.items)
    counts.update({"to come": len(one.coming), "to be skipped": len(one.passed_over)})
    counts.update({collapsed.state: collapsed.count for collapsed in one.ranges})
    told = ", ".join(f"{count:,} {state}" for state, count in counts.most_common() if count) or "nothing"
    if len(one.unread):
        told += f"; {len(one.unread):,} older ones were not looked at"
    marks = [lines]
    marks += [
        range_at(scale, long.start, long.end, long.tone, run_url(long.ref), f"{one.job}: {long.count:,} {long.state}")
        for long in one.ranges
    ]
    if is_single:
        drawn_alone = [*one.items, *_to_come(one.coming, Tone.IDLE, "to come")]
        drawn_alone += _to_come(one.passed_over, Tone.WARN, "to be skipped")
    else:
        drawn_alone = [item for item in one.items if item.tone is Tone.BAD][-_FAILED_MAX:]
        marks.append(_bars(scale, one))
    marks += [_mark(scale, one.job, item) for item in drawn_alone]
    marks.append(now_line(scale, now))
    return RenderedLane(
        one.job,
        told,
        lane(f"{one.job}: {told}", *marks),
        {state: count for state, count in counts.items() if count},
        len(one.unread),
        one.gap,
    )


def _bars(scale: Scale, one: JobLane) -> Markup:
    instants = {tone: [np.array([item.start for item in one.items if item.tone is tone], np.int64)] for tone in Tone}
    instants[Tone.IDLE] += [one.unread, one.coming]
    instants[Tone.WARN].append(one.passed_over)
    return bars({tone: scale.counts(np.concatenate(some)) for tone, some in instants.items()})


def _to_come(instants: Numbers, tone: Tone, state: str) -> list[Item]:
    return [Item(instant, instant, tone, state, None) for instant in instants.tolist()]


def _mark(scale: Scale, job: str, item: Item) -> Markup:
    took = "" if item.end == item.start else f", {span((item.end - item.start) / SECOND)}"
    title = f"{job}, {at(item.start):%Y-%m-%d %H:%M:%S} UTC: {item.state.replace('_', ' ')}{took}"
    return mark_at(scale, item.start, item.end, item.tone, None if item.ref is None else run_url(item.ref), title)
