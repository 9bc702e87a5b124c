"""Several schedules as one."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ScheduleError
from itinerary.schedules import Binding, Schedule, cron, every, excluding, from_json, once, union
from tests.unit.schedules.helpers import examples, shown, utc

members = st.lists(
    st.one_of(
        st.integers(60, 20_000).map(every),
        st.sampled_from(["*/7 * * * *", "0 */2 * * *", "30 2 * * *", "0 12 * * 1-5"]).map(
            lambda text: cron(text, tz="America/New_York")
        ),
        st.integers(0, 86_400 * 4).map(
            lambda second: once(utc("2026-03-07").fromtimestamp(1_772_841_600 + second, utc("2026-01-01").tzinfo))
        ),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.spec("S6", "union")
@examples(60)
@given(members)
def test_a_union_fires_when_any_member_does_and_once_where_two_agree(parts: list[Schedule]) -> None:
    start, end = utc("2026-03-07"), utc("2026-03-10")
    expected = sorted({at for part in parts for at in part.between(start, end)})
    assert union(*parts).between(start, end) == expected
    assert union(union(*parts), *parts).between(start, end) == expected


@pytest.mark.spec("S8", "the schedule's, else the job's")
def test_the_zone_of_a_union_is_that_of_its_members_unless_they_have_their_own() -> None:
    both = union(cron("0 9 * * *"), cron("0 9 * * *", tz="Asia/Tokyo"), tz="America/New_York")
    assert both.between(utc("2026-01-01"), utc("2026-01-02")) == [utc("2026-01-01T00:00"), utc("2026-01-01T14:00")]
    assert from_json(both.to_json()) == both
    inherited = union(cron("0 9 * * *"), cron("0 9 * * *", tz="Asia/Tokyo")).bind(Binding("job", "America/New_York"))
    assert inherited == both


@pytest.mark.spec("S8", "the schedule's, else the job's")
def test_a_zone_reaches_schedules_however_deep_they_lie() -> None:
    deep = union(excluding(union(cron("0 9 * * *")), "closed"), tz="America/New_York")
    bound = deep.bind(Binding("job", "Asia/Tokyo", calendars={}))
    assert '"0 9 * * *", "tz": "America/New_York"' in str(bound.to_json()).replace("'", '"')


@pytest.mark.spec("S3", "on members and on the whole")
def test_the_range_of_a_member_and_of_the_union_both_hold() -> None:
    limited = union(
        cron("0 * * * *", end="2026-01-01T02:00"),
        cron("30 * * * *", start="2026-01-01T02:00", end="2026-01-01T23:00"),
        start="2026-01-01T01:00",
        end="2026-01-01T03:30",
    )
    assert [at[6:11] for at in shown(limited, "2026-01-01", "2026-01-02")] == ["01:00", "02:00", "02:30", "03:30"]


@pytest.mark.spec("S6", "union")
def test_a_union_of_nothing_of_too_many_or_of_no_schedules_is_refused() -> None:
    with pytest.raises(ScheduleError, match="a union has 1 to 100 members, not 0"):
        union()
    with pytest.raises(ScheduleError, match="a union has 1 to 100 members, not 101"):
        union(*[every("1m")] * 101)
    with pytest.raises(ScheduleError, match="member 2 of a union is no schedule but str"):
        union(every("1m"), cast("Any", "* * * * *"))


@pytest.mark.spec("S9", "a bound on everything")
def test_schedules_nested_deeper_than_anyone_means_are_refused() -> None:
    nested: Schedule = every("1h")
    for _ in range(7):
        nested = union(nested)
    assert nested.next_after(utc("2026-01-01")) == utc("2026-01-01T01:00")
    assert from_json(nested.to_json()) == nested
    with pytest.raises(ScheduleError, match="schedules are nested more than 8 deep; flatten them"):
        union(nested)
    with pytest.raises(ScheduleError, match="schedules are nested more than 8 deep; flatten them"):
        excluding(nested, "closed")


@pytest.mark.spec("S6", "union")
def test_a_member_that_has_ended_does_not_end_the_union() -> None:
    both = union(once("2026-01-01T12:00Z"), every("1d"))
    assert both.next_after(utc("2026-01-01T00:00")) == utc("2026-01-01T12:00")
    assert both.next_after(utc("2026-01-01T12:00")) == utc("2026-01-02T00:00")
    assert union(once("2026-01-01T12:00Z")).next_after(utc("2026-01-01T12:00")) is None


@pytest.mark.spec("S6", "jitter")
def test_jitter_is_set_on_the_whole_and_is_at_most_a_day() -> None:
    with pytest.raises(
        ScheduleError, match="jitter is about starts, and a part of a schedule has none; set it on the whole"
    ):
        union(every("1h", jitter="1m"), cron("0 0 * * *"))
    with pytest.raises(ScheduleError, match="jitter 1d1s is too long; at most 1d"):
        every("1h", jitter=86_401)
    assert union(every("1h"), jitter="1d").jitter == 86_400_000_000


@pytest.mark.spec("S1", "@reboot")
def test_a_start_of_a_node_is_no_part_of_another_schedule() -> None:
    with pytest.raises(ScheduleError, match="@reboot has no instants, so it cannot be part of another schedule"):
        union(cron("@reboot"), every("1h"))
    with pytest.raises(ScheduleError, match="make it a job of its own"):
        excluding(cron("@reboot"), "holidays")
