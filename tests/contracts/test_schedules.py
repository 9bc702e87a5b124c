"""What every kind of schedule promises, held against one of each (`specimens`)."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from itinerary.schedules import Binding, Every, Schedule, ScheduleTable, cron, enumerate_many, from_json
from itinerary.schedules.instants import Moment, floor_second
from tests.contracts.specimens import SPECIMENS, Specimen, fingerprint

EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

every_kind = pytest.mark.parametrize("specimen", SPECIMENS, ids=str)
a_few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
fractions = st.floats(0, 1, allow_nan=False)


def window(specimen: Specimen, at: float, length: float) -> tuple[datetime, datetime]:
    """A window of whole seconds near the time that matters: `at` and `length` run from 0 to 1."""
    width = specimen.width // SECOND
    start = specimen.around + timedelta(seconds=round((at * 1.5 - 1) * width))
    return start, start + timedelta(seconds=round(length * width))


def steps(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    """What repeated `next_after` finds in a window."""
    found, at = list[datetime](), schedule.next_after(start - SECOND)
    while at is not None and at < end:
        found.append(at)
        at = schedule.next_after(at)
    return found


def whole(specimen: Specimen) -> list[datetime]:
    return specimen.schedule.between(specimen.around - specimen.width, specimen.around + specimen.width)


@pytest.mark.spec("S9", "next_after")
@every_kind
@a_few
@given(at=fractions, length=fractions)
def test_between_is_sorted_unique_inside_its_window_and_equal_to_repeated_next_after(
    specimen: Specimen, at: float, length: float
) -> None:
    start, end = window(specimen, at, length)
    found = specimen.schedule.between(start, end)
    assert found == sorted(set(found))
    assert all(start <= instant < end and instant.tzinfo is UTC for instant in found)
    assert found == steps(specimen.schedule, start, end)


@pytest.mark.spec("S13", "windows")
@every_kind
@a_few
@given(at=fractions, length=fractions, cut=fractions)
def test_splitting_a_window_at_any_second_changes_nothing(
    specimen: Specimen, at: float, length: float, cut: float
) -> None:
    start, end = window(specimen, at, length)
    middle = start + timedelta(seconds=round((end - start) // SECOND * cut))
    ask = specimen.schedule.between
    assert ask(start, middle) + ask(middle, end) == ask(start, end)


@pytest.mark.spec("S9", "next_after")
@every_kind
@a_few
@given(at=fractions, microseconds=st.integers(0, 999_999))
def test_the_next_instant_is_later_and_the_fraction_of_a_second_does_not_matter(
    specimen: Specimen, at: float, microseconds: int
) -> None:
    second, _ = window(specimen, at, 0)
    asked = second + timedelta(microseconds=microseconds)
    found = specimen.schedule.next_after(asked)
    assert found is None or (found > asked and found.microsecond == 0)
    assert found == specimen.schedule.next_after(second)


@pytest.mark.spec("S9", "next_after")
@every_kind
def test_asking_at_the_edges_of_the_supported_time_is_harmless(specimen: Specimen) -> None:
    first = specimen.schedule.next_after(datetime.min.replace(tzinfo=UTC))
    assert first is not None
    assert EARLIEST <= first < LATEST
    assert specimen.schedule.next_after(LATEST - SECOND) is None
    assert specimen.schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
    for start, end in ((EARLIEST, EARLIEST + 50 * specimen.width / 100), (LATEST - specimen.width / 2, LATEST)):
        assert specimen.schedule.between(start, end) == steps(specimen.schedule, start, end)


@pytest.mark.spec("S13", "vectorised")
@a_few
@given(at=fractions, length=fractions, around=st.sampled_from([specimen.around for specimen in SPECIMENS]))
def test_many_at_once_are_each_one_alone(at: float, length: float, around: datetime) -> None:
    start, end = window(Specimen(cron("* * * * *"), around, timedelta(hours=20)), at, length)
    schedules = [specimen.schedule for specimen in SPECIMENS] * 2
    numbers, instants = enumerate_many(schedules, start, end)
    found: list[list[int]] = [[] for _ in schedules]
    for number, instant in zip(numbers.tolist(), instants.tolist(), strict=True):
        found[number].append(instant)
    for schedule, together in zip(schedules, found, strict=True):
        assert sorted(together) == [floor_second(instant) * 1_000_000 for instant in schedule.between(start, end)]


@pytest.mark.spec("S13", "vectorised")
def test_a_compiled_table_answers_like_the_list_it_was_made_from() -> None:
    schedules = [specimen.schedule for specimen in SPECIMENS]
    table = ScheduleTable.compile(schedules)
    for around in sorted({specimen.around for specimen in SPECIMENS}):
        start, end = around - timedelta(hours=4), around + timedelta(hours=4)
        listed, compiled = enumerate_many(schedules, start, end), enumerate_many(table, start, end)
        assert sorted(zip(*map(list, listed), strict=True)) == sorted(zip(*map(list, compiled), strict=True))
    assert len(table) == len(schedules)


@pytest.mark.spec("S3")
@every_kind
@a_few
@given(low=fractions, high=fractions)
def test_start_and_end_are_both_inclusive_and_change_nothing_between_them(
    specimen: Specimen, low: float, high: float
) -> None:
    instants = whole(specimen)
    first, last = sorted(round(share * (len(instants) - 1)) for share in (low, high))
    start, end = (Moment(floor_second(instants[n])) for n in (first, last))
    bounded = replace(specimen.schedule, start=start, end=end)
    assert bounded.between(EARLIEST, LATEST) == instants[first : last + 1]
    assert bounded.next_after(instants[first] - SECOND) == instants[first]
    assert bounded.next_after(instants[last]) is None


@pytest.mark.spec("S3")
@every_kind
def test_a_start_between_two_instants_is_no_instant_but_for_a_steady_interval(specimen: Specimen) -> None:
    instants = whole(specimen)
    activated = instants[0] + SECOND
    later = replace(specimen.schedule, start=Moment(floor_second(activated)))
    if isinstance(specimen.schedule, Every):
        assert later.next_after(EARLIEST) == activated
    else:
        expected = specimen.schedule.next_after(instants[0])
        assert later.next_after(EARLIEST) == expected


@pytest.mark.spec("S7", "a serialised form")
@pytest.mark.usefixtures("installed")
@every_kind
def test_a_schedule_survives_json(specimen: Specimen) -> None:
    text = json.dumps(specimen.schedule.to_json())
    for again in (from_json(json.loads(text)), from_json(text)):
        assert again == specimen.schedule
        assert hash(again) == hash(specimen.schedule)
        assert str(again) == str(specimen.schedule)
        assert again.to_json() == specimen.schedule.to_json()
        start, end = window(specimen, 0.5, 1)
        assert again.between(start, end) == specimen.schedule.between(start, end)


@pytest.mark.spec("S10")
@every_kind
def test_a_schedule_says_what_it_does_in_one_line_of_words(specimen: Specimen) -> None:
    words = str(specimen.schedule)
    assert words == words.strip()
    assert words[0].isupper()
    assert "\n" not in words
    assert "object at" not in words


@pytest.mark.spec("S8", "the schedule's, else the job's")
@every_kind
def test_binding_twice_is_binding_once_and_moves_no_zone_that_was_set(specimen: Specimen) -> None:
    bound = specimen.schedule.bind(Binding("other", "Asia/Tokyo"))
    assert bound.tz == specimen.schedule.tz or specimen.schedule.tz is None
    assert bound.bind(Binding("third", "Europe/Paris", 1)) == bound


@pytest.mark.spec("S6", "every restart agrees")
@pytest.mark.usefixtures("installed")
def test_two_processes_agree_whatever_their_hash_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, hashes = [json.dumps(fingerprint())], set[int]()
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            answers.append(json.dumps(other.submit(fingerprint).result()))
            hashes.add(other.submit(hash, "seed").result())
    assert len(hashes) == 2, "the seeds were not used"
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.spec("S1", "@reboot")
def test_a_reboot_schedule_has_no_instants_and_keeps_the_rest_of_the_contract() -> None:
    reboot = cron("@reboot", tz="America/New_York", start="2026-01-01", jitter="5s")
    assert reboot.next_after(EARLIEST) is None
    assert reboot.between(EARLIEST, LATEST) == []
    assert [len(part) for part in enumerate_many([reboot, reboot], EARLIEST, LATEST)] == [0, 0]
    assert from_json(json.dumps(reboot.to_json())) == reboot
    assert str(reboot) == "At each start of a node, from 2026-01-01T00:00:00, started up to 5s later"
