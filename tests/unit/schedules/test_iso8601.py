"""ISO 8601 repeating intervals."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from whenever import Date

from itinerary.errors import ScheduleError
from itinerary.schedules import Binding, Schedule, from_json, iso8601
from tests.unit.schedules.helpers import examples, shown, utc, zone_info

FORMS = "write R/<start>/<duration>, R<n>/<start>/<duration>, R<n>/<start>/<end>, or a duration such as PT15M or P1M"
PERIODS = "allowed are P1Y2M10D, P3W, PT1H30M"
SIGN = "has a sign; only positive durations are allowed, such as P1M or PT15M"
MOMENT = "is no ISO 8601 moment to the second, such as 2026-01-31T09:00 or …T09:00:00Z"


def whole(schedule: Schedule) -> list[datetime]:
    return schedule.between(utc("1900-01-01"), utc("2200-01-01"))


@pytest.mark.spec("S4", "31 Jan, 28 Feb, 31 Mar")
def test_the_end_of_a_month_comes_back_after_a_short_one() -> None:
    monthly = iso8601("R/2026-01-31T09:00/P1M", tz="Europe/Berlin")
    assert shown(monthly, "2026-01-01", "2026-06-01") == (
        ["01-31 09:00+0100", "02-28 09:00+0100", "03-31 09:00+0200", "04-30 09:00+0200", "05-31 09:00+0200"]
    )
    leap = iso8601("R/2024-02-29/P1Y")
    assert [f"{at:%Y-%m-%d}" for at in leap.between(utc("2024-01-01"), utc("2029-01-01"))] == (
        ["2024-02-29", "2025-02-28", "2026-02-28", "2027-02-28", "2028-02-29"]
    )


@pytest.mark.spec("S4", "drift-free")
@examples(40)
@given(
    day=st.dates(date(1900, 1, 12), date(1990, 12, 31)),
    at=st.times(time(6), time(20)).map(lambda value: value.replace(microsecond=0)),
    months=st.integers(0, 30),
    days=st.integers(0, 60),
    seconds=st.integers(0, 100_000),
    zone=st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Tehran", "Europe/London"]),
)
def test_the_nth_instant_is_the_anchor_plus_n_durations_for_two_hundred_years(
    day: date, at: time, months: int, days: int, seconds: int, zone: str
) -> None:
    assume(months or days > 9)
    period = f"P{months}M{days}D" + (f"T{seconds}S" if seconds else "")
    schedule = iso8601(f"R/{day}T{at}/{period}", tz=zone)
    anchor, wall, expected = Date(day.year, day.month, day.day), zone_info(zone), list[datetime]()
    end = utc("2199-12-01")
    while not expected or expected[-1] < end:
        n = len(expected)
        reading = datetime.combine(anchor.add(months=n * months, days=n * days).to_stdlib(), at, tzinfo=wall)
        expected.append(reading.astimezone(UTC) + timedelta(seconds=n * seconds))
    assert schedule.between(expected[0] - timedelta(days=9), end) == expected[:-1]


@pytest.mark.spec("S4", "R5")
def test_a_count_includes_the_first_at_the_start() -> None:
    five = iso8601("R5/2026-01-01T00:00Z/PT15M")
    assert whole(five) == [utc("2026-01-01T00:00") + n * timedelta(minutes=15) for n in range(5)]
    assert whole(iso8601("R1/2026-01-01T00:00/P1M")) == [utc("2026-01-01T00:00")]
    assert len(whole(iso8601("r400/2026-01-31/P1D"))) == 400


@pytest.mark.spec("S4", "R5")
@pytest.mark.parametrize("repeat", ["first", "second"])
def test_an_anchor_that_is_an_instant_is_the_first_instant_even_in_a_repeated_hour(repeat: str) -> None:
    second_pass = iso8601("R3/2026-11-01T06:30Z/P1D", tz="America/New_York", repeat=repeat)
    assert whole(second_pass) == [utc("2026-11-01T06:30"), utc("2026-11-02T06:30"), utc("2026-11-03T06:30")]
    assert second_pass.next_after(utc("2026-01-01")) == utc("2026-11-01T06:30")


@pytest.mark.spec("S4", "R3/<start>/<end>")
def test_a_start_and_an_end_give_the_first_two_instants() -> None:
    weeks = iso8601("R3/2026-03-01T09:00/2026-03-08T09:00", tz="America/New_York")
    assert shown(weeks, "2026-03-01", "2026-04-01") == ["03-01 09:00-0500", "03-08 09:00-0400", "03-15 09:00-0400"]
    exact = iso8601("R3/2026-03-07T14:00Z/2026-03-08T14:00Z", tz="America/New_York")
    assert shown(exact, "2026-03-01", "2026-04-01") == ["03-07 09:00-0500", "03-08 10:00-0400", "03-09 10:00-0400"]
    mixed = iso8601("R3/2026-01-01T00:00/2026-01-02T01:30")
    assert whole(mixed) == [utc("2026-01-01T00:00"), utc("2026-01-02T01:30"), utc("2026-01-03T03:00")]


@pytest.mark.spec("S4", "a bare duration")
@pytest.mark.parametrize("written", ["P3W", "PT90M", "R7/P1M", "R/PT1S"])
def test_a_bare_duration_is_anchored_when_it_is_bound_and_keeps_its_anchor(written: str) -> None:
    bare = iso8601(written)
    reason = f"iso8601 schedule is not complete: {written!r} has no start and counts from its job's registration"
    with pytest.raises(ScheduleError, match=re.escape(reason)):
        bare.next_after(0)
    registered = utc("2026-05-17T10:20:30")
    bound = bare.bind(Binding("job", "Europe/Berlin", int(registered.timestamp())))
    assert bound.next_after(utc("2026-01-01")) == registered
    assert bound.to_json() == {"iso8601": written, "anchored": "2026-05-17T10:20:30Z", "tz": "Europe/Berlin"}
    assert from_json(json.dumps(bound.to_json())) == bound
    assert bound.bind(Binding("job", "Asia/Tokyo", 1)) == bound, "registering again moves nothing"


@pytest.mark.spec("S4", "start is no anchor")
def test_the_active_range_does_not_move_the_anchor() -> None:
    late = iso8601("R5/2026-01-01T00:00Z/P1D", start="2026-01-03T12:00Z")
    assert [at.day for at in whole(late)] == [4, 5]


@pytest.mark.spec("S4", "start is the anchor of a bare duration")
@pytest.mark.parametrize(
    ("written", "start", "tz", "expected"),
    [
        ("PT50M", "2026-01-01T08:00Z", None, ["2026-01-01T08:00", "2026-01-01T08:50", "2026-01-01T09:40"]),
        ("R3/P1M", "2026-01-31T09:00", "Europe/Berlin", ["2026-01-31T08:00", "2026-02-28T08:00", "2026-03-31T07:00"]),
    ],
)
def test_a_bare_duration_counts_from_its_start(written: str, start: str, tz: str | None, expected: list[str]) -> None:
    bare = iso8601(written, start=start, tz=tz)
    bound = bare.bind(Binding("job", "Europe/Berlin", int(utc("2026-05-17T10:20:30").timestamp())))
    for schedule in (bare, bound, from_json(json.dumps(bound.to_json()))):
        assert schedule.between(utc("2025-01-01"), utc("2027-01-01"))[:3] == [utc(at) for at in expected]
    assert str(bound).count(" from ") == 1, "the words name the start once"
    assert "anchored" not in bound.to_json(), "the start is the anchor, so no registration is stored"


@pytest.mark.spec("S4", "start is the anchor of a bare duration")
def test_a_stored_anchor_stays_the_anchor_beside_a_start() -> None:
    stored = {"iso8601": "PT50M", "anchored": "2026-01-01T07:30:00Z", "start": "2026-01-01T08:00:00Z"}
    assert from_json(stored).next_after(0) == utc("2026-01-01T08:20")


REFUSED = {
    "P0D": "interval 'P0D': duration 'P0D' is zero; it must be at least one second",
    "R/2026-01-01/PT0S": "interval 'R/2026-01-01/PT0S': duration 'PT0S' is zero; it must be at least one second",
    "R/2026-01-01/-P1D": f"interval 'R/2026-01-01/-P1D': duration '-P1D' {SIGN}",
    "R/2026-01-01/P1M-1D": f"interval 'R/2026-01-01/P1M-1D': duration 'P1M-1D' {SIGN}",
    "R/2026-01-01/P1MT+1S": f"interval 'R/2026-01-01/P1MT+1S': duration 'P1MT+1S' {SIGN}",
    "R0/2026-01-01/P1D": "interval 'R0/2026-01-01/P1D': R0 never fires; write R for no limit, or R1 and more",
    "R3/2026-01-08/2026-01-01": (
        "interval 'R3/2026-01-08/2026-01-01': its end 2026-01-01T00:00:00 is not after its start 2026-01-08T00:00:00"
    ),
    "R3/2026-01-08/2026-01-08": (
        "interval 'R3/2026-01-08/2026-01-08': its end 2026-01-08T00:00:00 is not after its start 2026-01-08T00:00:00"
    ),
    "R3/2026-01-01T00:00Z/2026-01-02": (
        "interval 'R3/2026-01-01T00:00Z/2026-01-02': give both ends an offset, or neither"
    ),
    "R/2026-01-01": f"interval 'R/2026-01-01': duration '2026-01-01' is not ISO 8601 in whole units; {PERIODS}",
    "R-1/2026-01-01/P1D": f"interval 'R-1/2026-01-01/P1D': 'R-1' is no number of repetitions; {FORMS}",
    "2026-01-01/2026-01-02/P1D": (
        f"interval '2026-01-01/2026-01-02/P1D': '2026-01-01' is no number of repetitions; {FORMS}"
    ),
    "R1234567890/2026-01-01/P1D": (
        f"interval 'R1234567890/2026-01-01/P1D': 'R1234567890' is no number of repetitions; {FORMS}"
    ),
    "R/2026-01-01/P1D/P1D": f"interval 'R/2026-01-01/P1D/P1D' has too many parts; {FORMS}",
    "R/soon/P1D": f"interval 'R/soon/P1D': start: 'soon' {MOMENT}",
    "R/2026-01-01T00:00:00.5Z/P1D": (
        f"interval 'R/2026-01-01T00:00:00.5Z/P1D': start: '2026-01-01T00:00:00.5Z' {MOMENT}"
    ),
    "R/1899-12-31/P1D": (
        "interval 'R/1899-12-31/P1D': start: 1899-12-31 lies outside the supported years 1900 to 2199"
    ),
    "R/2026-01-01/P401Y": "interval 'R/2026-01-01/P401Y': duration 'P401Y' is longer than 400 years",
    "R/2026-01-01/PT1.5S": (
        f"interval 'R/2026-01-01/PT1.5S': duration 'PT1.5S' is not ISO 8601 in whole units; {PERIODS}"
    ),
    "": f"interval '': duration '' is not ISO 8601 in whole units; {PERIODS}",
    "P1D" + "0" * 126: "interval is 129 characters long; at most 128 are allowed",
}


@pytest.mark.spec("S4", "refused")
@pytest.mark.parametrize("written", REFUSED, ids=lambda text: text[:30])
def test_an_interval_that_cannot_be_meant_is_refused_with_the_reason(written: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(REFUSED[written])}$"):
        iso8601(written)


@pytest.mark.spec("S4", "refused")
def test_what_is_no_text_or_anchored_twice_is_refused() -> None:
    with pytest.raises(ScheduleError, match="an ISO 8601 interval is text, not int"):
        iso8601(cast("Any", 5))
    with pytest.raises(
        ScheduleError, match=r"has a start of its own, so it cannot be anchored at 2026-02-01T00:00:00Z"
    ):
        from_json({"iso8601": "R/2026-01-01/P1D", "anchored": "2026-02-01T00:00Z"})
    with pytest.raises(ScheduleError, match="gap 'x' is unknown"):
        iso8601("P1D", gap="x")


@pytest.mark.spec("S4", "refused")
@examples(400)
@given(st.one_of(st.text(max_size=60), st.from_regex(r"R?[0-9]{0,3}/?[-0-9T:Z+]{0,20}/?[-+PTYMWDHS0-9/]{0,12}")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        schedule = iso8601(text)
    except ScheduleError:
        return
    assert str(schedule).startswith("Every ")


@pytest.mark.spec("S8", "every kind")
@pytest.mark.parametrize(
    ("written", "choices", "reason"),
    [
        ("R/2026-01-01/PT1H", {"gap": "skip"}, "is exact, and no DST change touches it; leave out gap and repeat"),
        ("PT1H", {"repeat": "second"}, "is exact, and no DST change touches it; leave out gap and repeat"),
        ("R3/2026-01-01/P1D", {"repeat": "both"}, "repeat 'both' makes two instants of one; R<n> counts instants"),
    ],
)
def test_a_choice_that_could_have_no_effect_or_two_meanings_is_refused(
    written: str, choices: dict[str, str], reason: str
) -> None:
    with pytest.raises(ScheduleError, match=re.escape(reason)):
        iso8601(written, tz="Europe/Berlin", **choices)
