"""Charts are well-formed, show every row, and take names as text."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.charts import Bar, Group, Span, bars, spans

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("1")</script>&\x00\x1b'


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]  # noqa: S314 - our own


def widths(svg: str) -> list[float]:
    rects = ET.fromstring(svg).iter(f"{SVG}rect")  # noqa: S314 - our own
    return [float(rect.attrib["width"]) for rect in rects if rect.attrib["class"] in ("ours", "theirs")]


def test_bars_are_as_long_as_their_values_and_say_them() -> None:
    rows = [Bar("ours", 100.0, "100 /s"), Bar("theirs", 25.0, "25 /s", is_ours=False), Bar("none", 0.0, "0 /s")]
    svg = bars("Speed", [Group("on SQLite", rows)])
    long, short, none = widths(svg)
    assert long == pytest.approx(4 * short)
    assert none == 1.0
    assert {"Speed", "on SQLite", "ours", "100 /s", "theirs", "25 /s"} <= set(texts(svg))


def test_a_chart_has_a_title_and_says_all_its_values_in_words() -> None:
    svg = bars("Speed", [Group("on SQLite", [Bar("ours", 1.0, "1 /s")])])
    root = ET.fromstring(svg)  # noqa: S314 - our own
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}title") == "Speed"
    assert root.findtext(f"{SVG}desc") == "on SQLite: ours 1 /s"


def test_a_chart_is_for_light_and_for_dark() -> None:
    assert "prefers-color-scheme: dark" in bars("Speed", [])


@pytest.mark.parametrize("draw", ["bars", "spans"])
def test_a_hostile_name_is_text(draw: str) -> None:
    if draw == "bars":
        svg = bars(HOSTILE, [Group(HOSTILE, [Bar(HOSTILE, 1.0, HOSTILE)])])
    else:
        svg = spans(HOSTILE, [Group(HOSTILE, [Span(HOSTILE, (1.0, 2.0, 3.0))])])
    root = ET.fromstring(svg)  # noqa: S314 - our own
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in text for text in texts(svg))


def test_a_name_that_is_too_long_is_shortened_and_stands_in_full_in_the_description() -> None:
    name = "x" * 200
    svg = bars("Speed", [Group("on SQLite", [Bar(name, 1.0, "1")])])
    assert name not in texts(svg)
    assert name in (ET.fromstring(svg).findtext(f"{SVG}desc") or "")  # noqa: S314 - our own


def test_points_lie_by_their_powers_of_ten() -> None:
    svg = spans("Late", [Group("on SQLite", [Span("ours", (1.0, 10.0, 100.0)), Span("zero", (0.0, 1.0, 1_000.0))])])
    root = ET.fromstring(svg)  # noqa: S314 - our own
    circles = [float(circle.attrib["cx"]) for circle in root.iter(f"{SVG}circle")]
    lines = [line.attrib for line in root.iter(f"{SVG}line") if line.attrib["class"] == "line"]
    assert circles[0] == circles[1]  # what is on time lies where the scale begins
    first, last = (float(line["x2"]) for line in lines)
    assert (first - circles[0]) * 3 == pytest.approx((last - circles[0]) * 2)
    assert {"1 ms", "10 ms", "100 ms", "1 s"} <= set(texts(svg))


def test_a_row_without_numbers_says_that_nothing_ran() -> None:
    nan = float("nan")
    assert "nothing ran" in texts(spans("Late", [Group("on SQLite", [Span("idle", (nan, nan, nan))])]))
    assert widths(bars("Speed", [Group("on SQLite", [Bar("idle", nan, "–")])])) == [1.0]
