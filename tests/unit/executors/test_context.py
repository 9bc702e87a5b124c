"""What a task is told (X9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from structlog.testing import capture_logs

from itinerary import cron, every
from itinerary.errors import ScheduleError, TransactionError, UnknownZone
from itinerary.executors import ExecutionContext, TaskCancelled
from itinerary.executors.cancellation import CancelFlags
from itinerary.model.attempts import AttemptInfo, AttemptKey, ZoneSpan
from itinerary.model.ids import attempt_id, job_id, occurrence_id, task_id, task_run_id
from itinerary.model.occurrence import Kind, Window
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.schedules import Zone, packaged_zone
from tests.contracts.executors.stage import INSTANT, facts

pytestmark = pytest.mark.spec("X9")

KEY = AttemptKey(Ref(1), 0, 2)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def context(told: AttemptInfo, status: CancelFlags | None = None) -> ExecutionContext:
    return ExecutionContext(KEY, told, status or CancelFlags())


def test_a_task_is_told_everything_about_its_run() -> None:
    ctx = context(facts(attempt=2, last_run_at=INSTANT - 3_600_000_000, node="lisbon-1", is_recovery=True))
    assert (ctx.job, ctx.version, ctx.task, ctx.node, ctx.attempt) == ("nightly", 3, "main", "lisbon-1", 2)
    assert ctx.scheduled_at == AT
    assert ctx.started_at == AT + timedelta(microseconds=7)
    assert ctx.last_run_at == AT - timedelta(hours=1)
    assert (ctx.is_recovery, ctx.is_replay) == (True, False)
    assert all(at.tzinfo is UTC for at in (ctx.scheduled_at, ctx.started_at, ctx.last_run_at))


def test_a_first_run_has_no_last_one() -> None:
    assert context(facts()).last_run_at is None


def test_a_replay_knows_that_it_is_one() -> None:
    key = Key(INSTANT, JobNumber(1), Kind.REPLAY, f"{UUID(int=7)}/1")
    assert context(facts(key=key)).is_replay


def test_ids_are_those_that_everybody_computes() -> None:
    ctx = context(facts(attempt=2))
    job = job_id("nightly")
    occurrence = occurrence_id(job, INSTANT)
    run = task_run_id(occurrence, task_id(job, "main"))
    assert (ctx.occurrence_id, ctx.task_run_id, ctx.attempt_id) == (occurrence, run, attempt_id(run, 2))


def test_a_run_answers_for_its_own_instant() -> None:
    window = context(facts()).window
    assert list(window) == [AT]
    assert len(window) == 1
    assert (window.start, window.end) == (AT, AT + timedelta(seconds=1))


@pytest.mark.spec("R5")
def test_a_compressed_run_answers_for_each_instant_of_its_window() -> None:
    told = facts(window=Window(INSTANT, INSTANT + 3_600_000_000, 4), schedule=every("15m").to_json())
    window = context(told).window
    assert list(window) == [AT + timedelta(minutes=15 * number) for number in range(4)]
    assert list(window) == list(window), "more than once"
    assert len(window) == 4
    assert (window.start, window.end) == (AT, AT + timedelta(hours=1))


@pytest.mark.spec("R5", "protocol rule 5: by the zone data of its time")
def test_the_instants_of_a_window_are_those_of_the_zone_data_that_came_with_it() -> None:
    zone = packaged_zone("Europe/Berlin")
    later = Zone(zone.name, zone.starts, tuple(offset + 600 for offset in zone.offsets))
    end, change = INSTANT + 2 * 3_600_000_000, INSTANT + 3_600_000_000
    told = facts(
        window=Window(INSTANT, end, 8),
        schedule=cron("*/15 * * * *", tz="Europe/Berlin").to_json(),
        zones=(
            ZoneSpan(INSTANT, change, {"Europe/Berlin": zone.to_json()}),
            ZoneSpan(change, end, {"Europe/Berlin": later.to_json()}),
        ),
    )
    minutes = [(at - AT) // timedelta(minutes=1) for at in context(told).window]
    assert minutes == [0, 15, 30, 45, 65, 80, 95, 110]
    with pytest.raises(UnknownZone, match="the table of time zone 'Europe/Berlin' did not come with this run"):
        list(context(msgspec.structs.replace(told, zones=())).window)


@pytest.mark.spec("R5")
def test_a_window_without_its_schedule_is_not_guessed() -> None:
    window = context(facts(window=Window(INSTANT, INSTANT + 3_600_000_000, 4))).window
    assert len(window) == 4
    with pytest.raises(ScheduleError, match="answers for 4 instants"):
        list(window)


def test_what_a_task_logs_says_whose_it_is() -> None:
    with capture_logs() as logs:
        context(facts(attempt=2)).log.info("building", rows=3)
    assert logs == [
        {
            "event": "building",
            "rows": 3,
            "job": "nightly",
            "task": "main",
            "run": "nightly:1767225600",
            "attempt": 2,
            "log_level": "info",
        }
    ]


def test_a_task_can_see_that_it_should_end() -> None:
    status = CancelFlags()
    ctx = context(facts(), status)
    assert not ctx.cancelled
    ctx.raise_if_cancelled()
    status.is_stop_asked = True
    assert ctx.cancelled
    with pytest.raises(TaskCancelled, match="'main' of job 'nightly' was asked to end"):
        ctx.raise_if_cancelled()


@pytest.mark.spec("D6", "elsewhere")
def test_where_there_is_no_transaction_asking_for_one_is_a_clear_error() -> None:
    with pytest.raises(TransactionError, match="'main' of job 'nightly' has no transaction here"):
        context(facts()).transaction()
