"""Pictures: what is written into them is escaped, what they show is said in words, and states differ in shape."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from itinerary.model.states import OccurrenceState
from itinerary.web.charts.marks import Tone, mark
from itinerary.web.charts.sparkline import sparkline
from itinerary.web.charts.strip import strip
from itinerary.web.charts.svg import element, picture

HOSTILE = '"><script>alert(1)</script>'


def test_text_and_values_in_a_picture_are_escaped() -> None:
    drawn = str(picture(10, 10, HOSTILE, element("text", HOSTILE, href=HOSTILE)))
    assert "<script" not in drawn
    ET.fromstring(drawn)  # noqa: S314 - it is our own


def test_a_sparkline_says_what_it_shows_and_breaks_where_nothing_is_known() -> None:
    drawn = ET.fromstring(str(sparkline([1, 2, None, 3, 4], "starts: 4")))  # noqa: S314 - it is our own
    assert drawn.get("role") == "img"
    assert drawn.get("aria-label") == "starts: 4"
    assert len([one for one in drawn if one.tag == "polyline"]) == 2


@pytest.mark.parametrize("values", [[], [None], [0], [0, 0], [5]])
def test_a_sparkline_of_little_can_be_drawn(values: list[float | None]) -> None:
    assert "NaN" not in str(sparkline(values, "little"))


def test_tones_differ_in_shape_and_not_in_colour_alone() -> None:
    shapes = {
        re.sub(r'(class|rx)="[^"]*"', "", str(mark(tone, 0, 0, 6, 16))) for tone in (Tone.GOOD, Tone.BAD, Tone.WARN)
    }
    assert len(shapes) == 3


def test_no_picture_has_a_style_attribute_which_the_policy_forbids() -> None:
    drawn = str(sparkline([1, 2], "x")) + str(strip([OccurrenceState.FAILED, OccurrenceState.COMPLETED]))
    assert "style=" not in drawn


def test_a_strip_tells_its_outcomes_in_words() -> None:
    drawn = str(strip([OccurrenceState.COMPLETED, OccurrenceState.COMPLETED, OccurrenceState.FAILED]))
    assert 'aria-label="last 3: 2 completed, 1 failed"' in drawn
