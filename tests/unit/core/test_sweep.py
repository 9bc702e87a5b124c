"""The sweep's decisions: nothing due is left without a row, whoever goes on, and however often it is interrupted."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from itinerary.core.recovery import sweep as sweeping
from itinerary.core.recovery.audit import audit
from itinerary.core.recovery.match import JobSpan, PackedInstants
from itinerary.core.recovery.strategies import STRETCH_MIN
from itinerary.core.recovery.sweep import STEP_MAX
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import RecordError
from itinerary.model.occurrence import Kind, Window
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Recovery, RecoveryPolicy
from itinerary.model.rows import JobNumber, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules import cron, custom, every, once
from tests.unit.core.timelines import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    Book,
    Shelf,
    Stubborn,
    body_of,
    install_stubborn,
    scheduled,
)

S = OccurrenceState
DAY = 24 * HOUR


def by(strategy: str, **bounds: object) -> Overrides:
    return Overrides(recovery=RecoveryPolicy(strategy, **bounds))  # type: ignore[arg-type]  # max_duration, max_occurrences


def told(rows: list[OccurrenceRow]) -> list[tuple[int, str]]:
    """Rows as minutes after noon, and their states."""
    return [((row.instant - NOON) // MINUTE, str(row.status)) for row in rows]


# -- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.spec("R1", "sweep")
def test_what_is_missing_and_young_runs_late_and_what_is_older_goes_through_the_strategy() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("backup", every("1m"), overrides=by("mark_as_missed"))
    shelf.put(scheduled(job, NOON + MINUTE))
    shelf.put(Key(NOON + 2 * MINUTE, job, Kind.TRIGGER, "by hand"))
    shelf.work_off(book.timeline, NOON, NOON + 4 * MINUTE + 30 * SECOND)
    rows = shelf.of(job)
    assert told([row for row in rows if row.kind is Kind.SCHEDULED]) == [
        *((0, "missed"), (1, "completed"), (2, "missed"), (3, "missed"), (4, "prerun"))
    ], "a trigger of the same instant stands for itself only; exactly as old as the grace period is young"
    assert [row.is_recovery for row in rows if row.reason is not None] == [True, True, True, False]


@pytest.mark.spec("R1", "bounded_window")
def test_hourly_and_two_hundred_hours_down_with_a_bound_of_a_day_is_24_run_and_176_missed() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("report", cron("0 * * * *"), overrides=by("bounded_window", max_duration="24h"))
    shelf.work_off(book.timeline, NOON, NOON + 200 * HOUR)
    states = [row.status for row in shelf.of(job)]
    assert states == [S.MISSED] * 176 + [S.QUEUED] * 24


@pytest.mark.spec("R1", "counts from its registration")
def test_a_job_counts_from_its_first_version_and_never_reaches_the_plans_end() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("late joiner", every("1m"), at=NOON + 5 * MINUTE)
    shelf.work_off(book.timeline, NOON, NOON + 7 * MINUTE)
    assert told(shelf.of(job)) == [(5, "queued"), (6, "queued")]


@pytest.mark.spec("S11", "pause")
@pytest.mark.spec("S12", "skip one")
def test_paused_and_skipped_instants_are_skipped_with_the_reason_and_never_recovered_and_stopped_ones_have_no_row() -> (
    None
):
    book, shelf = Book(), Shelf()
    job = book.job("backup", every("10m"))
    book.pause(job, NOON + 10 * MINUTE, until=NOON + 30 * MINUTE, reason="migration")
    book.skip(job, NOON + 40 * MINUTE, reason="holiday")
    book.stop(job, NOON + 50 * MINUTE)
    shelf.work_off(book.timeline, NOON, NOON + 2 * HOUR)
    rows = shelf.of(job)
    assert told(rows) == [(0, "queued"), (10, "skipped"), (20, "skipped"), (30, "queued"), (40, "skipped")]
    assert [row.reason for row in rows][1:] == [
        *["paused by anna since 2027-01-15T12:10:00Z: migration"] * 2,
        "recovered by execute_all: nobody was there at its instant",
        "skipped by anna: holiday",
    ]
    assert not any(row.is_recovery for row in rows if row.status is S.SKIPPED)


@pytest.mark.spec("R1", "versions")
def test_each_row_has_the_version_in_force_at_its_instant() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("backup", every("2m"))
    book.version(job, every("3m"), NOON + 5 * MINUTE, by("execute_last"))
    shelf.work_off(book.timeline, NOON, NOON + 10 * MINUTE)
    assert [((row.instant - NOON) // MINUTE, row.version, str(row.status)) for row in shelf.of(job)] == [
        *((0, 1, "missed"), (2, 1, "missed"), (4, 1, "missed"), (6, 2, "missed"), (9, 2, "queued"))
    ]


@pytest.mark.spec("S5", "sweep")
def test_a_single_instant_is_recovered_once_and_reboot_never() -> None:
    book, shelf = Book(), Shelf()
    single, reboot = book.job("fireworks", once("2027-01-15T12:07:00Z")), book.job("greeting", cron("@reboot"))
    for hour in range(3):
        shelf.work_off(book.timeline, NOON + hour * HOUR, NOON + (hour + 1) * HOUR)
    assert told(shelf.of(single)) == [(7, "queued")]
    assert shelf.of(reboot) == []


@pytest.mark.spec("R1", "settings")
def test_the_defaults_that_a_version_carries_are_the_level_above_the_job() -> None:
    book, shelf = Book(), Shelf()
    body = body_of(every("1m"), defaults=by("mark_as_missed"))
    book.job("backup", every("1m"), body=body)
    shelf.begin(NOON, NOON + HOUR)
    assert shelf.plan is not None
    (step,) = sweeping.Sweep(shelf.plan, book.timeline, [], [], grace_period=30 * SECOND).steps()
    assert {wanted.status for wanted in step.wanted} == {S.MISSED}


# -- stretches and gaps ----------------------------------------------------------------------------------------------


@pytest.mark.spec("S11", "one row for a long pause")
def test_a_month_of_pause_each_second_is_one_row_that_grows() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("pulse", every("1s"))
    book.pause(job, NOON, reason="migration")
    timeline = book.timeline
    at = NOON
    for length in (3, 397, 600, 1, 9, 5_000, 90_000, 1):
        shelf.work_off(timeline, at, at + length * SECOND)
        at += length * SECOND
    (row,) = shelf.of(job)
    assert (row.status, row.reason) == (S.SKIPPED, "paused by anna since 2027-01-15T12:00:00Z: migration")
    assert row.window == Window(NOON, at, (at - NOON) // SECOND)


@pytest.mark.spec("S11", "one row for a long pause")
def test_of_a_pause_that_has_less_than_a_thousand_instants_an_hour_the_first_thousand_are_rows() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("pulse", every("4s"))
    book.pause(job, NOON, reason="migration")
    timeline = book.timeline
    at = NOON
    for length in (3, 397, 600, 1, 9, 5_000, 90_000, 1):
        shelf.work_off(timeline, at, at + length * 4 * SECOND)
        at += length * 4 * SECOND
    rows = shelf.of(job)
    assert len(rows) == STRETCH_MIN + 1
    assert {row.status for row in rows} == {S.SKIPPED}
    assert rows[-1].window == Window(NOON + 4_000 * SECOND, at - 3 * SECOND, (at - NOON) // (4 * SECOND) - 1_000)
    assert all(row.window is None for row in rows[:-1])


@pytest.mark.spec("R1", "segment")
def test_a_long_pause_that_nobody_saw_is_one_row_from_its_first_instant_on() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("pulse", every("1s"), overrides=by("mark_as_missed"))
    book.pause(job, NOON + HOUR)
    book.version(job, every("1s"), NOON + HOUR + 600 * SECOND, by("mark_as_missed"))
    book.resume(job, NOON + 2 * HOUR)
    shelf.work_off(book.timeline, NOON, NOON + 3 * HOUR)
    assert [(row.instant, row.status, row.window) for row in shelf.of(job)][:3] == [
        (NOON, S.MISSED, Window(NOON, NOON + HOUR, 3_600)),
        (NOON + HOUR, S.SKIPPED, Window(NOON + HOUR, NOON + 2 * HOUR, 3_600)),
        (NOON + 2 * HOUR, S.MISSED, Window(NOON + 2 * HOUR, NOON + 3 * HOUR - 30 * SECOND, 3_570)),
    ], "a new version in the middle of a pause does not end its stretch"


@pytest.mark.spec("R2", "idempotent")
def test_whether_a_pause_is_long_is_the_same_for_who_begins_before_a_new_version_and_who_goes_on_after_it() -> None:
    book, shelf, broken = Book(), Shelf(), Shelf()
    job = book.job("pulse", every("4s"))
    book.pause(job, NOON)
    book.version(job, every("1s"), NOON + HOUR // 2)
    timeline, end = book.timeline, NOON + HOUR // 2 + MINUTE
    shelf.work_off(timeline, NOON, end)
    broken.begin(NOON, end)
    while broken.plan is not None:
        broken.take(next(iter(broken.sweep(timeline).steps(460))))
    assert broken.rows == shelf.rows
    (row,) = shelf.of(job)
    assert row.window == Window(NOON, end, 450 + 60)


@pytest.mark.spec("S11", "one row for a long pause")
def test_the_stretch_of_one_pause_is_not_extended_by_the_next_or_over_a_row() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("pulse", every("1s"))
    book.pause(job, NOON)
    book.resume(job, NOON + HOUR)
    book.pause(job, NOON + HOUR + MINUTE)
    timeline, second = book.timeline, NOON + HOUR + MINUTE
    shelf.work_off(timeline, NOON, second + HOUR)
    shelf.put(scheduled(job, second + HOUR), S.SKIPPED)
    shelf.work_off(timeline, second + HOUR, second + 2 * HOUR)
    windows = [(row.window.start, row.window.end) for row in shelf.of(job) if row.window is not None]
    assert windows == [(NOON, NOON + HOUR), (second, second + HOUR), (second + HOUR + SECOND, second + 2 * HOUR)]
    assert shelf_is_exact(shelf, timeline, NOON, second + 2 * HOUR)


@pytest.mark.spec("S12", "who and why")
def test_a_pause_that_follows_another_without_a_break_has_a_stretch_of_its_own() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("pulse", every("1s"))
    book.pause(job, NOON, until=NOON + HOUR, reason="migration")
    book.pause(job, NOON + HOUR, by="ben", reason="holiday")
    for hour in range(3):
        shelf.work_off(book.timeline, NOON + hour * HOUR, NOON + (hour + 1) * HOUR)
    assert [(row.window, row.reason) for row in shelf.of(job)] == [
        (Window(NOON, NOON + HOUR, 3_600), "paused by anna since 2027-01-15T12:00:00Z: migration"),
        (Window(NOON + HOUR, NOON + 3 * HOUR, 7_200), "paused by ben since 2027-01-15T13:00:00Z: holiday"),
    ]


@pytest.mark.spec("S11", "one row for a long pause")
def test_a_stretch_goes_on_over_hours_in_which_nothing_is_due() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("mornings", cron("* 0-11 * * *"))
    book.pause(job, NOON)
    at = NOON
    for _ in range(40):
        shelf.work_off(book.timeline, at, at + 6 * HOUR)
        at += 6 * HOUR
    windows = [row for row in shelf.of(job) if row.window is not None]
    assert [row.window for row in windows] == [
        Window(windows[0].instant, windows[0].window_end or 0, 7_200 - (len(shelf.of(job)) - 1))
    ]


@pytest.mark.spec("S7", "gap")
def test_a_job_that_cannot_be_enumerated_has_one_gap_that_grows_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stubborn(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    book, shelf = Book(), Shelf()
    stuck, good = book.job("stuck", custom(Stubborn())), book.job("good", every("1m"))
    broken = book.job("broken", every("1m"), body="{}")
    book.version(broken, every("1m"), NOON + 90 * SECOND, body="{}")
    shelf.put(scheduled(stuck, NOON))
    for start, end in ((0, 60.25), (60.25, 60.75), (60.75, 120), (120, 180)):
        shelf.work_off(book.timeline, NOON + int(start * SECOND), NOON + int(end * SECOND))
    assert told(shelf.of(good)) == [(0, "queued"), (1, "queued"), (2, "queued")], "the late one joins the queue"
    for job in (stuck, broken):
        (gap,) = (row for row in shelf.of(job) if row.window is not None)
        assert (gap.status, gap.window) == (S.MISSED, Window(NOON, NOON + 180 * SECOND, 0))
        assert gap.key == Key(NOON, job, Kind.SCHEDULED, "gap"), "so that it takes no instant's key"
        assert (gap.reason or "").startswith("not decided: ")
    assert len(shelf.of(stuck)) == 2, "what has a row inside the gap keeps it"


@pytest.mark.spec("S7", "gap")
def test_what_was_decided_to_be_a_gap_stays_one_when_a_successor_could_enumerate_it() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("backup", every("1m"))
    gap = Key(NOON, job, Kind.SCHEDULED, "gap")
    shelf.put(gap, S.MISSED, window=Window(NOON, NOON + HOUR, 0))
    shelf.work_off(book.timeline, NOON, NOON + HOUR)
    assert list(shelf.rows) == [gap]


@pytest.mark.spec("S7", "gap")
def test_a_gap_in_which_no_whole_second_lies_needs_no_row() -> None:
    book, shelf = Book(), Shelf()
    broken = book.job("broken", every("1m"), body="{}")
    shelf.work_off(book.timeline, NOON + SECOND // 4, NOON + SECOND // 2)
    assert shelf.of(broken) == []


@pytest.mark.spec("S7", "gap")
def test_a_definition_that_cannot_be_read_is_a_gap_too() -> None:
    book, shelf = Book(), Shelf()
    job = book.job("odd", every("1m"), body='{"schedule":{"every":"1m"},"surprise":1}')
    shelf.work_off(book.timeline, NOON, NOON + HOUR)
    (gap,) = shelf.of(job)
    assert gap.window == Window(NOON, NOON + HOUR, 0)
    assert "surprise" in (gap.reason or "")


@pytest.mark.spec("R1", "more than fits")
def test_jobs_are_enumerated_a_few_at_a_time_when_there_is_too_much_and_one_that_is_too_much_alone_has_a_gap() -> None:
    book, shelf = Book(), Shelf()
    for number in range(5):
        book.job(f"daily {number}", every("1d"), overrides=by("mark_as_missed"))
    busy = book.job("pulse", every("1s"), overrides=by("mark_as_missed"))
    last = book.job("daily", every("1d"), overrides=by("mark_as_missed"))
    shelf.work_off(book.timeline, NOON, NOON + 120 * DAY)
    assert [len(shelf.of(job)) for job in (JobNumber(1), last)] == [120, 120]
    (gap,) = shelf.of(busy)
    assert gap.window == Window(NOON, NOON + 120 * DAY, 0)
    assert "more than 10,000,000 instants" in (gap.reason or "")


# -- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R2", "steps")
def test_steps_are_bounded_and_the_last_one_comes_even_if_there_is_nothing_to_write() -> None:
    book, shelf = Book(), Shelf()
    assert shelf.work_off(book.timeline, NOON, NOON + HOUR) == 1
    job = book.job("pulse", every("1s"))
    shelf.begin(NOON, NOON + 2 * STEP_MAX * SECOND + SECOND)
    steps = list(shelf.sweep(book.timeline).steps())
    assert [len(step.wanted) for step in steps] == [STEP_MAX, STEP_MAX, 1]
    assert [(step.step, step.cursor, step.is_last) for step in steps] == [
        *((1, str(job), False), (2, str(job), False), (3, str(job), True))
    ]
    assert steps == list(shelf.sweep(book.timeline).steps()), "the same arguments give the same steps"


@pytest.mark.spec("R1", "in order")
def test_rows_are_written_job_by_job_and_in_the_order_of_their_instants() -> None:
    book, shelf = Book(), Shelf()
    for name in ("backup", "report"):
        job = book.job(name, every("1m"))
        book.pause(job, NOON + 2 * MINUTE, until=NOON + 4 * MINUTE)
    shelf.begin(NOON, NOON + 6 * MINUTE)
    (step,) = shelf.sweep(book.timeline).steps()
    assert [(wanted.key.job, (wanted.key.instant - NOON) // MINUTE) for wanted in step.wanted] == [
        (job, minute) for job in (1, 2) for minute in range(6)
    ]


@pytest.mark.spec("R2", "steps")
def test_a_cursor_that_this_program_did_not_write_is_refused() -> None:
    book, shelf = Book(), Shelf()
    shelf.begin(NOON, NOON + HOUR)
    assert shelf.plan is not None
    shelf.plan = replace(shelf.plan, cursor="page 7")
    with pytest.raises(RecordError, match="'page 7' is no cursor"):
        list(shelf.sweep(book.timeline).steps())


STRATEGIES = st.sampled_from(
    [
        *(by(strategy) for strategy in Recovery),
        by("bounded_window", max_duration="20m"),
        by("bounded_window", max_occurrences=7),
    ]
)
AT = st.integers(0, 60).map(lambda minute: NOON + minute * MINUTE)
EVENTS = st.lists(
    st.tuples(
        st.integers(1, 3), st.sampled_from(["version", "pause", "resume", "stop", "start", "remove", "skip"]), AT
    ),
    max_size=12,
)


def scene(data: st.DataObject) -> tuple[Timeline, Shelf]:
    """Some jobs with a history, and some rows that are there already."""
    book, shelf = Book(), Shelf()
    schedules = [every("1m"), every("2m"), cron("*/3 * * * *")]
    for number, schedule in enumerate(schedules):
        book.job(f"job {number}", schedule, overrides=data.draw(STRATEGIES))
    for number, what, at in data.draw(EVENTS):
        job = JobNumber(number)
        if what == "version":
            book.version(job, data.draw(st.sampled_from(schedules)), at, data.draw(STRATEGIES))
        elif what == "skip":
            book.skip(job, at)
        else:
            getattr(book, what)(job, at)
    if data.draw(st.booleans()):
        book.version(JobNumber(2), schedules[0], NOON + 30 * MINUTE, body="{}")
    timeline = book.timeline
    for due in timeline.expected(NOON, NOON + HOUR):
        if data.draw(st.integers(0, 5)) == 0:
            shelf.put(scheduled(due.job, due.instant))
    return timeline, shelf


def shelf_is_exact(shelf: Shelf, timeline: Timeline, start: int, end: int) -> bool:
    expected = timeline.expected(start, end)
    report = audit(expected, shelf.decided(start, end), shelf.windows(start), {})
    windows = [row for row in shelf.windows(start) if row.window_count]
    spans = [JobSpan(row.job, row.window_start or 0, row.window_end or 0) for row in windows]
    assert PackedInstants(expected).inside(spans).tolist() == [row.window_count for row in windows]
    return report.is_clean and not report.unexpected and report.matched + report.unknown_count == report.expected


@pytest.mark.spec("R2", "idempotent")
@given(st.data(), st.integers(1, 9), st.integers(1, 3))
def test_a_sweep_that_is_interrupted_anywhere_writes_what_an_uninterrupted_one_writes(
    data: st.DataObject, step_max: int, plans: int
) -> None:
    timeline, shelf = scene(data)
    before = dict(shelf.rows)
    bounds = [NOON + HOUR * n // plans for n in range(plans + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeping, "STRETCH_MIN", 4)
        patch.setattr("itinerary.core.recovery.strategies.STRETCH_MIN", 4)
        for start, end in pairwise(bounds):
            shelf.work_off(timeline, start, end)
        broken = Shelf()
        broken.rows, broken._refs = before, len(before)
        for start, end in pairwise(bounds):
            broken.begin(start, end)
            while broken.plan is not None:
                # Somebody takes over, reads what there is, does a few steps, and dies; the last ones may be lost.
                for step in islice(broken.sweep(timeline).steps(step_max), data.draw(st.integers(1, 4))):
                    broken.take(step)
    assert broken.rows == shelf.rows
    assert shelf_is_exact(shelf, timeline, NOON, NOON + HOUR)


@pytest.mark.spec("R2", "idempotent")
@given(st.data())
def test_sweeping_what_is_swept_writes_nothing(data: st.DataObject) -> None:
    timeline, shelf = scene(data)
    shelf.work_off(timeline, NOON, NOON + HOUR)
    once_swept = dict(shelf.rows)
    shelf.work_off(timeline, NOON, NOON + HOUR)
    assert shelf.rows == once_swept
