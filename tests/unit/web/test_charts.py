"""The charts of a job and of an occurrence: what is where and what it is called; and how much of a text is shown."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from markupsafe import escape

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.durations import Bar, durations, percentiles
from itinerary.web.charts.heatmap import LEVELS, DayDrawn, heatmap, level_of
from itinerary.web.charts.marks import Tone
from itinerary.web.charts.waterfall import ChartSpan, bar, ribbon
from itinerary.web.daily_counts import CollapsedDays, DayCount, YearCounts
from itinerary.web.pages.attempts import tail
from itinerary.web.pages.filters import cut, instant, linked, offset
from itinerary.web.pages.year import year_drawn

HOSTILE = '"><script>alert(1)</script>'
MONDAY = date(2026, 3, 2)
COMPLETED, FAILED, SKIPPED = OccurrenceState.COMPLETED, OccurrenceState.FAILED, OccurrenceState.SKIPPED


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(str(drawn))  # noqa: S314 - it is our own


def test_a_day_is_darker_the_more_it_had_and_never_empty_if_it_had_something() -> None:
    levels = [level_of(count, 1_440) for count in (0, 1, 10, 100, 1_440)]
    assert levels == sorted(levels)
    assert (levels[0], levels[1], levels[-1]) == (0, 1, LEVELS)
    assert level_of(1, 0) >= 1


def test_a_calendar_has_a_column_for_each_week_and_marks_what_went_wrong_by_shape() -> None:
    tones = [Tone.GOOD, Tone.BAD, Tone.WARN, None, Tone.GOOD, Tone.GOOD, Tone.GOOD, Tone.GOOD]
    days = [
        DayDrawn(MONDAY + timedelta(days=place), 1, Tone.GOOD, tone, HOSTILE, "/x") for place, tone in enumerate(tones)
    ]
    picture = parsed(heatmap(days, HOSTILE))
    places = [(one.get("x"), one.get("y")) for one in picture.iter("rect")]
    assert len(set(places)) == 8
    assert len({x for x, _ in places}) == 2
    assert len(list(picture.iter("path"))) == 2
    assert [link.get("tabindex") for link in picture.iter("a")] == ["-1"] * 8


def test_percentiles_are_values_that_there_were() -> None:
    assert percentiles([]) is None
    found = percentiles([float(number) for number in range(1, 101)])
    assert found is not None
    assert (found.middle, found.high, found.longest) == (50, 95, 100)
    alone = percentiles([3.0])
    assert alone is not None
    assert (alone.middle, alone.high) == (3, 3)


def test_a_run_that_took_far_too_long_is_cut_off_and_the_others_keep_their_heights() -> None:
    bars = [Bar(1.0, COMPLETED, "a second") for _ in range(40)] + [
        Bar(1_000.0, FAILED, HOSTILE),
        Bar(None, SKIPPED, "-"),
    ]
    found = percentiles([one.took for one in bars if one.took is not None])
    picture = parsed(durations(bars, found, ("1 s", "1 s"), "Durations", 100))
    heights = [float(one.get("height", 0)) for one in picture.iter("rect") if one.get("class") == "fill-good"]
    assert max(heights) > 30
    assert len([one for one in picture.iter("rect") if one.get("class") == "cut"]) == 1
    assert [title.text for title in picture.iter("title")][-2:] == [HOSTILE, "-"]


def test_a_bar_is_where_it_was_in_time_and_is_seen_however_short() -> None:
    span = ChartSpan(1_000, 2_000)
    whole, point, beyond = (
        parsed(bar(span, *when, Tone.GOOD)) for when in ((1_000, 2_000), (2_000, 2_000), (0, 9_000))
    )
    first, second, third = (next(one.iter("rect")) for one in (whole, point, beyond))
    assert (first.get("x"), first.get("width")) == ("0", "1000")
    assert float(second.get("x", 0)) + float(second.get("width", 0)) == 1_000
    assert third.get("width") == "1000"
    pieces = parsed(ribbon(span, [(1_000, 1_500, Tone.BUSY, HOSTILE), (1_500, 2_000, Tone.GOOD, "then")]))
    assert [title.text for title in pieces.iter("title")] == [HOSTILE, "then"]
    assert pieces.get("aria-hidden") == "true"


@pytest.mark.parametrize("text", ["", "short", "x" * 5_000, '"' * 5_000, "<é💣>" * 2_000])
@pytest.mark.parametrize("room", [0, 1, 100, 1_000])
def test_of_a_long_text_as_much_is_kept_as_there_is_room_for_on_a_page(text: str, room: int) -> None:
    end, head = tail(text, room), tail(text, room, is_head=True)
    assert text.endswith(end)
    assert text.startswith(head)
    for kept in (end, head):
        assert len(str(escape(kept)).encode()) <= room
        if len(kept) < len(text) and room > 20:
            assert len(str(escape(kept)).encode()) > room * 0.8


def test_words_for_times_and_texts() -> None:
    assert (offset(0.004), offset(-10), offset(None)) == ("+4 ms", "−10.0 s", "–")
    assert cut("x" * 30, 10) == "x" * 10 + "… (20 more characters)"
    assert linked("overlaps occurrence 12, <b>") == 'overlaps occurrence <a href="/runs/12">12</a>, &lt;b&gt;'
    assert (cut(None, 3), cut("abc", 3)) == ("", "abc")
    assert ".007 UTC</time>" in instant(datetime(2026, 3, 2, microsecond=7_999, tzinfo=UTC), "precise")


def test_a_year_says_what_each_day_had_and_leads_to_where_it_ended() -> None:
    today = 20_000
    day = DayCount()
    day.states, day.place = Counter({COMPLETED: 3, FAILED: 1}), 41
    now = DayCount()
    now.states = Counter({COMPLETED: 5})
    covered = CollapsedDays(today - 10, today - 8, OccurrenceState.MISSED, 99)
    drawn = year_drawn(HOSTILE, "UTC", YearCounts(today, {today - 3: day, today: now}, (covered,), is_whole=False))
    assert "3 completed, 1 failed" in drawn
    assert "before=42" in drawn
    assert drawn.count("among 99 instants that were missed") == 3
    assert "today, so far" in drawn
    assert "5 completed" not in drawn
    assert "Still counting" in drawn
    assert "<script>" not in drawn
    assert "4 before today" in drawn
    assert "day-good-4" in drawn, "most of that day went well"
    assert "4 days with failures" in drawn
