"""Schedules that others write: found through an entry point, and never trusted."""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from itinerary.errors import ItineraryError, ScheduleError, ScheduleFaulty, WindowError
from itinerary.schedules import (
    Calendar,
    CustomSchedule,
    cron,
    custom,
    enumerate_many,
    every,
    excluding,
    from_json,
    schedule,
    union,
)
from tests.unit.schedules.helpers import utc

START, END = utc("2026-01-01T00:00"), utc("2026-01-02T00:00")
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Answers:
    """A schedule that gives whatever answers it was made with."""

    next: Callable[[datetime], Any] = lambda t: t.replace(minute=0, second=0) + HOUR
    window: Callable[[datetime, datetime], Any] = lambda start, end: ()
    words: str = "Answers"
    kind: str = "answers"

    def next_after(self, t: datetime) -> datetime | None:
        return cast("datetime | None", self.next(t))

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        return cast("Iterable[datetime]", self.window(start, end))

    def __str__(self) -> str:
        return self.words

    def to_json(self) -> Any:
        return None


def fail(*_: object) -> Any:
    raise LookupError("no tide table for 2026")


FAULTY_NEXT: dict[str, tuple[Callable[[datetime], Any], str]] = {
    "stands still": (lambda t: t, "did not advance: next_after(2026-01-01 00:00:00+00:00) gave 2026-01-01 00:00:00"),
    "goes backwards": (lambda t: t - HOUR, "did not advance: next_after(2026-01-01 00:00:00+00:00) gave 2025-12-31 23"),
    "raises": (fail, "raised LookupError in next_after: no tide table for 2026"),
    "raises ours": (lambda _: cron("61 * * * *"), "raised ScheduleError in next_after: cron '61 * * * *': minute 61"),
    "is naive": (
        lambda t: t.replace(tzinfo=None) + HOUR,
        "gave 2026-01-01 01:00:00, which has no time zone; an aware datetime",
    ),
    "has fractions": (lambda t: t + HOUR / 7_000, "gave 2026-01-01 00:00:00.514286+00:00, which is not a whole second"),
    "is a number": (lambda _: 5, "gave 5; an aware datetime is needed"),
    "is text": (lambda _: "soon", "gave 'soon'; an aware datetime is needed"),
}

FAULTY_BETWEEN: dict[str, tuple[Callable[[datetime, datetime], Any], str]] = {
    "stands still": (
        lambda a, _: [a, a],
        "went from 2026-01-01 00:00:00+00:00 to 2026-01-01 00:00:00+00:00 in between",
    ),
    "goes backwards": (lambda a, _: [a + HOUR, a], "went from 2026-01-01 01:00:00+00:00 to 2026-01-01 00:00:00+00:00"),
    "begins too early": (
        lambda a, _: [a - HOUR],
        "gave 2025-12-31 23:00:00+00:00, which is outside the window asked for",
    ),
    "ends too late": (lambda _, b: [b], "gave 2026-01-02 00:00:00+00:00, which is outside the window asked for"),
    "leaves our time": (
        lambda *_: [datetime.max.replace(microsecond=0, tzinfo=UTC)],
        "is outside the window asked for",
    ),
    "raises": (fail, "raised LookupError in between: no tide table for 2026"),
    "raises on the way": (
        lambda a, _: (fail() if n else a for n in range(2)),
        "raised LookupError in between: no tide",
    ),
    "is naive": (
        lambda a, _: [a.replace(tzinfo=None)],
        "gave 2026-01-01 00:00:00, which has no time zone; an aware datetime",
    ),
    "has fractions": (lambda a, _: [a + HOUR / 7_000], "which is not a whole second"),
    "is no list": (lambda *_: 5, "raised TypeError in between: 'int' object is not iterable"),
    "is none": (lambda *_: None, "raised TypeError in between: 'NoneType' object is not iterable"),
    "never ends": (
        lambda a, _: itertools.repeat(a),
        "went from 2026-01-01 00:00:00+00:00 to 2026-01-01 00:00:00+00:00",
    ),
    "never ends, ascending": (lambda a, _: (a + n * HOUR for n in itertools.count()), "outside the window asked for"),
}


@pytest.mark.spec("S7", "caught")
@pytest.mark.parametrize("fault", FAULTY_NEXT)
def test_a_next_instant_that_breaks_the_rules_is_caught_with_the_reason(fault: str) -> None:
    answer, reason = FAULTY_NEXT[fault]
    schedule = custom(Answers(next=answer))
    for faulty in (schedule, union(every("1d"), schedule), excluding(schedule, Calendar("open"))):
        with pytest.raises(ScheduleFaulty, match=f"^schedule kind 'answers' {re.escape(reason)}"):
            faulty.next_after(START)


@pytest.mark.spec("S7", "caught")
@pytest.mark.parametrize("fault", FAULTY_BETWEEN)
def test_a_window_that_breaks_the_rules_is_caught_with_the_reason(fault: str) -> None:
    answer, reason = FAULTY_BETWEEN[fault]
    schedule = custom(Answers(window=answer))
    for ask in (
        lambda: schedule.between(START, END),
        lambda: enumerate_many([every("1h"), schedule], START, END),
        lambda: union(every("1h"), schedule).between(START, END),
    ):
        with pytest.raises(ScheduleFaulty, match=f"^schedule kind 'answers' .*{re.escape(reason)}"):
            ask()


@pytest.mark.spec("S7", "caught")
def test_an_instant_beyond_our_time_is_the_end_and_no_fault() -> None:
    far = datetime.max.replace(microsecond=0, tzinfo=UTC)
    assert custom(Answers(next=lambda _: far)).next_after(START) is None
    assert custom(Answers(next=lambda _: far.replace(tzinfo=timezone(-HOUR)))).next_after(START) is None
    assert custom(Answers(next=lambda _: utc("2200-01-01"))).next_after(START) is None


@pytest.mark.spec("S7", "caught")
def test_more_instants_than_a_call_returns_are_refused_as_for_any_schedule() -> None:
    def seconds(start: datetime, end: datetime) -> Iterable[datetime]:
        return (start + timedelta(seconds=n) for n in range((end - start) // timedelta(seconds=1)))

    assert len(custom(Answers(window=seconds)).between(START, START + HOUR)) == 3_600
    composed = custom(Answers(window=lambda start, end: cron("* * * * * *").between(start, start.replace(year=2027))))
    with pytest.raises(WindowError, match="the window holds more than 10,000,000 instants"):
        composed.between(START, END)


@pytest.mark.spec("S7", "caught")
def test_words_and_data_that_raise_are_caught_too() -> None:
    class Silent(Answers):
        def __str__(self) -> str:
            return str(fail())

        def to_json(self) -> Any:
            return fail()

    with pytest.raises(ScheduleFaulty, match="schedule kind 'answers' raised LookupError in str: no tide table"):
        str(custom(Silent()))
    with pytest.raises(ScheduleFaulty, match="schedule kind 'answers' raised LookupError in to_json: no tide table"):
        custom(Silent()).to_json()


@pytest.mark.spec("S7", "a small protocol")
def test_a_schedule_of_your_own_takes_start_end_and_jitter_like_any_other() -> None:
    def hours(start: datetime, end: datetime) -> Iterable[datetime]:
        return (at for n in range(24) if start <= (at := START + n * HOUR) < end)

    schedule = custom(Answers(window=hours), start=START + HOUR, end=START + 3 * HOUR, jitter="5s")
    assert [at.hour for at in schedule.between(START, END)] == [1, 2, 3]
    assert schedule.next_after(START) == START + HOUR
    assert str(schedule) == "Answers, from 2026-01-01T01:00:00Z, until 2026-01-01T03:00:00Z, started up to 5s later"
    assert isinstance(schedule.value, CustomSchedule)


@pytest.mark.spec("S7", "a small protocol")
def test_what_is_no_schedule_or_no_value_is_refused() -> None:
    with pytest.raises(ScheduleError, match="int is no schedule; it needs kind, next_after, between and to_json"):
        custom(cast("Any", 5))
    with pytest.raises(ScheduleError, match="Answers is no schedule"):
        custom(Answers(kind=cast("Any", 5)))

    unhashable = type("Unhashable", (Answers,), {"__hash__": None})
    with pytest.raises(ScheduleError, match="Unhashable is no value; make it hashable, as a frozen dataclass is"):
        custom(unhashable())


PACKAGE = """
from dataclasses import dataclass
from datetime import timedelta

@dataclass(frozen=True)
class Moons:
    days: int
    kind: str = "moons"
    def next_after(self, t): return t + timedelta(days=self.days)
    def between(self, start, end): return []
    def __str__(self): return f"Every {self.days} days of the moon"
    def to_json(self): return self.days
    @classmethod
    def from_json(cls, data):
        if data == 13: raise ValueError("no moon has 13 days")
        return {14: "half a moon", 15: cls(15, "other")}.get(data) or cls(data)

not_a_class = 5
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a schedule kind, as an installer would leave it."""
    (tmp_path / "lunar_calendar.py").write_text(PACKAGE)
    info = tmp_path / "lunar_calendar-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lunar-calendar\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[itinerary.schedules]\n"
        "moons = lunar_calendar:Moons\ngone = lunar_calendar:Gone\nodd = lunar_calendar:not_a_class\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.spec("S7", "found through an entry point")
@pytest.mark.usefixtures("installed")
def test_a_stored_definition_finds_its_code_through_the_entry_point() -> None:
    data = {"custom": "moons", "value": 28, "start": "2026-01-01T00:00:00Z"}
    schedule = from_json(json.dumps(data))
    assert schedule.next_after(utc("2026-02-01")) == utc("2026-03-01")
    assert schedule.to_json() == data
    assert from_json(schedule.to_json()) == schedule
    assert str(schedule) == "Every 28 days of the moon, from 2026-01-01T00:00:00Z"


@pytest.mark.spec("S7", "found through an entry point")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            {"custom": "tides"},
            "schedule kind 'tides' is not installed (installed: gone, moons, odd); install the package",
        ),
        ({"custom": "gone"}, "schedule kind 'gone' could not be built: AttributeError: "),
        ({"custom": "odd"}, "schedule kind 'odd' could not be built: AttributeError: "),
        ({"custom": "moons", "value": 13}, "schedule kind 'moons' could not be built: ValueError: no moon has 13 days"),
        ({"custom": "moons", "value": 14}, "schedule kind 'moons' built a str, which is no schedule"),
        ({"custom": "moons", "value": 15}, "schedule kind 'moons' built one of kind 'other', which would not be found"),
        ({"custom": 5}, "custom schedule: custom is the name of a kind, not 5"),
        ({"custom": ["moons"]}, "custom schedule: custom is the name of a kind, not ['moons']"),
        ({"custom": "moons", "values": 1}, "custom schedule: key 'values' is unknown; did you mean 'value'?"),
    ],
)
def test_a_definition_without_its_code_is_refused_with_the_reason(data: dict[str, Any], reason: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(reason)}"):
        from_json(data)


@pytest.mark.spec("S7", "found through an entry point")
def test_without_any_package_the_error_says_so() -> None:
    with pytest.raises(ItineraryError, match=r"schedule kind 'moons' is not installed \(installed: none\)"):
        from_json({"custom": "moons"})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of this test alone."""
    monkeypatch.setattr(sys.modules["itinerary.schedules.custom"], "_registered", {})


@pytest.mark.spec("S7", "registered")
@pytest.mark.usefixtures("registry")
def test_a_class_that_the_program_registers_is_found_by_its_kind() -> None:
    @dataclass(frozen=True)
    class Hourly:
        words: str

        def next_after(self, t: datetime) -> datetime | None:
            return t.replace(minute=0, second=0) + HOUR

        def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
            return [start] if start < end else []

        def __str__(self) -> str:
            return self.words

        def to_json(self) -> Any:
            return self.words

        @classmethod
        def from_json(cls, data: Any) -> Any:
            return cls(data)

    assert schedule("hourly")(Hourly) is Hourly
    assert schedule("hourly")(Hourly) is Hourly, "a program that is imported again registers the same class"
    written = custom(cast("CustomSchedule", Hourly("on the hour")), end="2026-06-01").to_json()
    assert written == {"custom": "hourly", "value": "on the hour", "end": "2026-06-01T00:00:00"}
    loaded = from_json(json.dumps(written))
    assert str(loaded).startswith("on the hour")
    assert loaded == custom(cast("CustomSchedule", Hourly("on the hour")), end="2026-06-01")


@pytest.mark.spec("S7", "registered")
@pytest.mark.usefixtures("registry")
def test_a_class_that_cannot_be_registered_is_refused_with_the_reason() -> None:
    class Bare: ...

    class Named(Bare):
        kind = "moons"

        @classmethod
        def from_json(cls, data: Any) -> Any:
            return cls()

    class Other(Named): ...

    for name in ("", " tides", "x" * 256, cast("str", 7)):
        with pytest.raises(ScheduleError, match="is no name of a kind"):
            schedule(name)
    with pytest.raises(ScheduleError, match="Bare has no from_json; give it a class method"):
        schedule("bare")(Bare)
    with pytest.raises(ScheduleError, match="is for a class, not for"):
        schedule("bare")(cast("type", fail))
    with pytest.raises(ScheduleError, match="Named has the kind 'moons' and is registered as 'tides'; use one name"):
        schedule("tides")(Named)
    schedule("moons")(Named)
    with pytest.raises(ScheduleError, match=r"schedule kind 'moons' is registered by .*Named already; give .*Other"):
        schedule("moons")(Other)
