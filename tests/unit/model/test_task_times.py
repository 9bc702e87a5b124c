"""When a task run began and ended, from the rows of its attempts (D2, X8)."""

from __future__ import annotations

import pytest

from itinerary.model.report_builder import task_times
from itinerary.model.rows import AttemptRow, Ref
from itinerary.model.states import TaskState

REF = Ref(7)


def attempt(number: int, status: TaskState, start: int | None, end: int | None) -> AttemptRow:
    return AttemptRow(REF, 0, number, status, start, end)


@pytest.mark.spec("D2", "start and end of a task run")
@pytest.mark.parametrize(
    ("status", "attempts", "expected"),
    [
        pytest.param(TaskState.SUCCESS, [(1, TaskState.SUCCESS, 10, 14)], (10, 14), id="one attempt"),
        pytest.param(
            TaskState.FAILED,
            [(2, TaskState.FAILED, 30, 34), (1, TaskState.FAILED, 10, 14)],
            (10, 34),
            id="from the first attempt to the last, in any order",
        ),
        pytest.param(TaskState.RUNNING, [(1, TaskState.FAILED, 10, 14)], (10, None), id="it waits to retry"),
        pytest.param(TaskState.RUNNING, [(1, TaskState.RUNNING, None, None)], (5, None), id="it began with the run"),
        pytest.param(TaskState.FAILED, [(1, TaskState.FAILED, 10, None)], (10, None), id="lost with its node"),
        pytest.param(TaskState.CANCELLED, [(1, TaskState.CANCELLED, None, 14)], (None, 14), id="never called"),
        pytest.param(TaskState.SKIPPED, [], (None, None), id="skipped"),
    ],
)
def test_a_task_run_lasts_from_the_start_of_its_first_attempt_to_the_end_of_its_last(
    status: TaskState,
    attempts: list[tuple[int, TaskState, int | None, int | None]],
    expected: tuple[int | None, int | None],
) -> None:
    assert task_times(status, [attempt(*one) for one in attempts], 5) == expected
