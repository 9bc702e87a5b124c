"""Parts of an occurrence's page, of one that waited all night, tried a thousand times, and said too much."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest

from itinerary.model.occurrence import Kind
from itinerary.model.rows import Ref
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.read.runs import AttemptSeen, RunDetail, RunView, StepSeen, TaskSeen
from itinerary.schedules.instants import microseconds_of
from itinerary.web.pages.attempts import attempts_of, said_by, waterfall
from itinerary.web.pages.filters import instant
from itinerary.web.pages.state_history import trail_drawn
from itinerary.web.pages.templates import drawn

INSTANT = datetime(2026, 3, 2, 5, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"


def after(seconds: float) -> datetime:
    return INSTANT + timedelta(seconds=seconds)


def detail(trail: tuple[StepSeen, ...] = (), tasks: tuple[TaskSeen, ...] = ()) -> RunDetail:
    run = RunView(
        id=UUID(int=1),
        number=Ref(7),
        run="etl:1",
        job="etl",
        kind=Kind.SCHEDULED,
        is_recovery=False,
        version=1,
        instant=INSTANT,
        state=OccurrenceState.RUNNING,
        started_at=after(1),
        ended_at=None,
        late_seconds=1.0,
        took_seconds=None,
        node="a",
        reason=None,
        window=None,
    )
    return RunDetail(
        run=run,
        due_at=INSTANT,
        priority=0,
        cancelled_by=None,
        asked=None,
        adjusted=(),
        trail=trail,
        tasks=tasks,
        configuration=(),
    )


def attempt(number: int, status: TaskState = TaskState.FAILED, **said: str | None) -> AttemptSeen:
    began = None if status is TaskState.RUNNING else after(number)
    ended = None if status is TaskState.RUNNING else after(number + 0.5)
    return AttemptSeen(number, status, began, ended, 0.5, said.get("error"), said.get("output"))


def test_of_a_long_trail_its_beginning_and_its_end_are_shown_and_how_much_is_in_between() -> None:
    states = (OccurrenceState.CONDITION_PENDING, OccurrenceState.CONDITION_RUNNING)
    steps = tuple(StepSeen(after(number), None, states[number % 2], "a", HOSTILE * 40) for number in range(5_000))
    part = trail_drawn(detail(steps), microseconds_of(after(5_000)))
    assert "4,950 more in between" in part
    assert len(part) < 60_000
    assert "<script>" not in part
    assert "until now" in part


def test_a_task_that_has_only_begun_is_drawn_from_the_start_of_its_occurrence_until_now() -> None:
    task = TaskSeen("load", TaskState.RUNNING, 0, None, None, None, (attempt(1, TaskState.RUNNING),), 0)
    (one,) = attempts_of(detail(tasks=(task,)), microseconds_of(after(4)))
    assert (one.start, one.end) == (microseconds_of(after(1)), microseconds_of(after(4)))
    assert "so far" in waterfall(detail(tasks=(task,)), [one], microseconds_of(after(4)))


@pytest.mark.spec("D2", "start and end of a task run")
def test_a_task_is_shown_with_its_start_its_end_and_its_duration() -> None:
    tries = (attempt(1, TaskState.FAILED), attempt(2))
    task = TaskSeen("load", TaskState.SUCCESS, 1, None, None, None, tries, 0, after(1), after(2.5), 1.5)
    attempts = attempts_of(detail(tasks=(task,)), microseconds_of(after(4)))
    part = waterfall(detail(tasks=(task,)), attempts, microseconds_of(after(4)))
    assert part.count(f"{instant(after(1), 'time')} to {instant(after(2.5), 'time')}, 1.5 s") == 1


def test_a_thousand_attempts_with_much_to_say_still_make_a_light_page() -> None:
    loud = tuple(attempt(number, error=HOSTILE * 1_000, output='"<&' * 30_000) for number in range(1, 1_001))
    result = msgspec.Raw(b'"' + b"<" * 60_000 + b'"')
    task = TaskSeen(HOSTILE, TaskState.FAILED, 999, None, HOSTILE, result, loud, 0)
    found = detail(tasks=(task,))
    attempts = attempts_of(found, microseconds_of(after(2_000)))
    said = said_by(attempts)
    parts = drawn("run/output.html", said=said, number=7) + waterfall(found, attempts, microseconds_of(after(2_000)))
    assert len(parts.encode()) < 200_000
    assert "940 earlier attempts are left out" in parts
    assert "<script>" not in parts
    assert (said[-1].number, said[-1].is_last, said[-1].output[-3:]) == (1_000, True, '"<&')
    assert said[-1].result_left_out > 0
    assert said[0].output == ""
    assert 'href="/runs/7/output/0/1000"' in parts
