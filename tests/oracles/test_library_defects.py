"""Each difference between the libraries and us, pinned by its smallest case: what they answer, what we answer, and why.

The reasons are the functions and classes of cronsim_explained.py, croniter_reading.py and croniter_explained.py; their
docstrings say why. Times are UTC. When a library mends a fault its case fails here, and the reason can go.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter

from itinerary.errors import ScheduleError
from itinerary.schedules import cron
from tests.oracles import croniter_explained, cronsim_explained
from tests.oracles.croniter_reading import READINGS
from tests.oracles.libraries import WALK_MAX, Answer, Question, ask_croniter, ask_cronsim
from tests.oracles.model import EPOCH, seconds_since_epoch
from tests.oracles.scenes import Scene
from tests.oracles.zones import SECOND

NEW_YORK, LORD_HOWE, ST_JOHNS = "America/New_York", "Australia/Lord_Howe", "America/St_Johns"

# reason, expression, zone, window, what they answer, what we answer
CRONSIM = [
    ("steps_over_one_value_run_to_the_end", "15-15/20 5 * * *", "UTC", "2024-01-01T05:00", "2024-01-01T06:00",
     "05:15 05:35 05:55", "05:15"),
    ("six_fields_follow_real_time", "0 30 2 * * *", NEW_YORK, "2024-03-10T05:00", "2024-03-10T09:00",
     "", "07:00"),
    ("six_fields_follow_real_time", "0 30 1 * * *", NEW_YORK, "2024-11-03T04:00", "2024-11-03T08:00",
     "05:30 06:30", "05:30"),
    ("HoursRepaired", "*/20 3 * * *", LORD_HOWE, "2023-09-30T14:00", "2023-09-30T18:00",
     "16:40", "16:00 16:20 16:40"),
    ("HoursRepaired", "*/20 2 * * *", LORD_HOWE, "2023-04-01T13:00", "2023-04-01T17:00",
     "16:10", "15:30 15:50 16:10"),
    ("MinutesRepaired", "35 * * * *", LORD_HOWE, "2023-09-30T15:00", "2023-09-30T17:00",
     "15:05 16:35", "15:05 15:35 16:35"),
    ("MinutesRepaired", "35 * * * *", LORD_HOWE, "2023-04-01T14:00", "2023-04-01T16:30",
     "14:35 16:05", "14:35 15:05 16:05"),
    ("DaysRepaired", "*/20 0 22 3 *", "Asia/Tehran", "2021-03-20T20:00", "2021-03-22T00:00",
     "20:30", ""),
    ("DaysRepaired", "*/20 * * * 6", ST_JOHNS, "1999-10-31T02:00", "1999-10-31T04:00",
     "02:10", "02:10 02:50 03:10"),
]  # fmt: skip
CRONITER = [
    ("ranges_of_one_value_mean_the_whole_field", "15-15 5 * * *", "UTC", "2024-01-01T05:14", "2024-01-01T05:17",
     "05:14 05:15 05:16", "05:15"),
    ("nearest_weekdays_move_to_the_end_of_a_short_month", "0 5 31W * *", "UTC", "2024-06-27T00:00", "2024-07-01T00:00",
     "05:00", ""),
    ("special_days_are_not_ored", "0 5 10W * Tue", "UTC", "2024-06-10T00:00", "2024-06-12T00:00",
     "05:00", "05:00 05:00"),
    ("nth_weekdays_push_out_plain_ones", "0 5 * * 1,1#2", "UTC", "2024-06-03T00:00", "2024-06-09T00:00",
     "", "05:00"),
    ("full_ranges_count_as_stars", "0 5 1-31 * 1,*/6", "UTC", "2024-06-03T00:00", "2024-06-05T00:00",
     "05:00", "05:00 05:00"),
    ("thirty_days_and_the_last_count_as_all", "0 5 2-31,L * *", "UTC", "2024-06-01T00:00", "2024-06-02T00:00",
     "05:00", ""),
    ("either_day_field_may_run_out", "0 5 31 4 1", "UTC", "2024-04-01T00:00", "2024-04-02T00:00",
     "", "05:00"),
    ("either_day_field_may_run_out", "0 0 5 1 * 1 2024", "UTC", "2024-12-01T00:00", "2024-12-03T00:00",
     "05:00", "05:00 05:00"),
    ("stepped_years_end_in_2099", "0 0 5 1 1 * */2", "UTC", "2100-01-01T00:00", "2100-01-02T00:00",
     "", "05:00"),
    ("fixed_times_run_twice_in_a_repeated_hour", "30 1 * * *", NEW_YORK, "2024-11-03T04:00", "2024-11-03T08:00",
     "05:30 06:30", "05:30"),
    ("repeated_times_get_lost", "*/20 * * * *", LORD_HOWE, "2023-04-01T14:30", "2023-04-01T15:40",
     "14:40 15:30", "14:40 15:10 15:30"),
    ("repeated_times_get_lost", "*/20 1 * 10 0", NEW_YORK, "1993-10-31T05:30", "1993-10-31T08:00",
     "05:40", "05:40 06:00 06:20 06:40"),
    ("wildcards_of_some_hours_run_after_a_gap", "*/20 2 * * *", NEW_YORK, "2024-03-10T05:00", "2024-03-10T09:00",
     "07:00", ""),
    ("times_of_every_hour_may_land_in_a_gap", "6 * * * *", LORD_HOWE, "2023-09-30T14:00", "2023-09-30T17:00",
     "14:36 15:30 16:06", "14:36 16:06"),
    ("lost_times_keep_their_seconds", "15 30 2 * * *", NEW_YORK, "2024-03-10T05:00", "2024-03-10T09:00",
     "07:00:15", "07:00"),
    ("fixed_times_of_every_hour_are_skipped", "30 0-23 * * *", NEW_YORK, "2024-03-10T06:00", "2024-03-10T08:00",
     "06:30 07:30", "06:30 07:00 07:30"),
]  # fmt: skip


def asked(text: str, key: str, start: str, end: str) -> Question:
    first, beyond = (datetime.fromisoformat(instant).replace(tzinfo=UTC) for instant in (start, end))
    return Question(text, Scene(key, first, first, beyond), first - SECOND)


def ours(question: Question) -> list[int]:
    scene = question.scene
    return [seconds_since_epoch(at) for at in cron(question.text, tz=scene.key).between(scene.start, scene.end)]


def times(instants: list[int]) -> str:
    return " ".join(f"{EPOCH + timedelta(seconds=at):%H:%M:%S}".removesuffix(":00") for at in instants)


@pytest.mark.spec("S1", "S8")
@pytest.mark.parametrize(("reason", "text", "key", "start", "end", "theirs", "our_own"), CRONSIM)
def test_cronsim_differs_as_described(
    reason: str, text: str, key: str, start: str, end: str, theirs: str, our_own: str
) -> None:
    question = asked(text, key, start, end)
    answer = ask_cronsim(question)
    assert answer is not None
    assert (times(answer.instants), times(ours(question))) == (theirs, our_own)
    assert cronsim_explained.explain(question, answer, question.scene.lay_out()) == (reason,)


@pytest.mark.spec("S1", "S2", "S8")
@pytest.mark.parametrize(("reason", "text", "key", "start", "end", "theirs", "our_own"), CRONITER)
def test_croniter_differs_as_described(
    reason: str, text: str, key: str, start: str, end: str, theirs: str, our_own: str
) -> None:
    question = asked(text, key, start, end)
    answer = ask_croniter(question)
    assert answer is not None
    assert (times(answer.instants), times(ours(question))) == (theirs, our_own)
    assert croniter_explained.explain(question, answer, question.scene.lay_out()) == (reason,)


def test_every_reason_is_pinned() -> None:
    known = {"steps_over_one_value_run_to_the_end", "six_fields_follow_real_time"}
    known |= {fault.__name__ for fault in cronsim_explained.FAULTS}
    assert {reason for reason, *_ in CRONSIM} == known
    known = {reason.__name__ for reason in (*READINGS, *croniter_explained.CROSSINGS)}
    assert {reason for reason, *_ in CRONITER} == known


@pytest.mark.spec("S8")
def test_cronsim_never_returns_where_the_clock_goes_back_over_midnight() -> None:
    question = asked("2 */4,15 * * *", ST_JOHNS, "1999-10-30T23:49", "1999-10-31T06:00")
    answer = ask_cronsim(question)
    assert answer == Answer([], is_endless=True)
    assert times(ours(question)) == "03:32"
    assert cronsim_explained.explain(question, answer, question.scene.lay_out()) == ("HoursRepaired",)


@pytest.mark.spec("S9")
def test_cronsim_stands_still_at_a_midnight_that_comes_twice() -> None:
    question = asked("0 * * * 0", ST_JOHNS, "1999-10-31T02:00", "1999-10-31T06:00")
    answer = ask_cronsim(question)
    assert answer is not None
    assert times(answer.instants) == " ".join(["02:30"] * WALK_MAX)
    assert times(ours(question)) == "02:30 03:30 04:30 05:30"
    assert cronsim_explained.explain(question, answer, question.scene.lay_out()) == ("DaysRepaired",)


@pytest.mark.spec("S8")
def test_croniter_tries_each_minute_of_samoas_lost_day() -> None:
    question = asked("* * * * *", "Pacific/Apia", "2011-12-30T09:58", "2011-12-30T10:02")
    answer = ask_croniter(question)
    assert answer is not None
    assert (times(answer.instants), answer.is_endless) == ("09:58 09:59", True)
    assert times(ours(question)) == "09:58 09:59 10:00 10:01"
    assert croniter_explained.explain(question, answer, question.scene.lay_out()) == (
        "long_gaps_are_tried_time_by_time",
    )


@pytest.mark.spec("S1")
def test_croniter_finds_nothing_for_days_that_never_coincide_although_they_are_ored() -> None:
    question = asked("0 5 10 * Sun#1", "UTC", "2024-06-01T00:00", "2024-06-12T00:00")
    answer = ask_croniter(question)
    assert answer == Answer([])
    assert times(ours(question)) == "05:00 05:00"
    assert croniter_explained.explain(question, answer, question.scene.lay_out()) == (
        "either_day_field_may_run_out",
        "special_days_are_not_ored",
    )


@pytest.mark.spec("S1")
def test_croniter_expands_a_step_over_a_number_to_the_whole_field_and_ours_refuses_it() -> None:
    walk = croniter("59/15 * * * *", datetime(2024, 1, 1, tzinfo=UTC), datetime)
    assert [f"{next(walk):%H:%M}" for _ in range(4)] == ["00:15", "00:30", "00:45", "01:00"]
    with pytest.raises(ScheduleError, match="59"):
        cron("59/15 * * * *")
