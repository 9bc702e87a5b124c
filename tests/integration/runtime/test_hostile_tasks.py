"""Tasks that misbehave, all at once on one node: it keeps scheduling on time, and each ends as it should (X4).

The story is played once, and looked at from all sides: whatever runs beside it makes each of them worse.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from itinerary.model.overrides import Overrides
from itinerary.model.queries import Detail
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.writes import CancelRequest
from tests.integration.runtime.scene import TICK, Scene, is_alive, on_stage, playing
from tests.unit.runtime.world import Log

SHORT: Final = Overrides(task_timeout="4s")
LONG_LIVED: Final = ("ignores cancellation", "stuck thread", "blocks its loop", "forks children", "prints without end")
"""Those that misbehave until they are ended."""
SHORT_LIVED: Final = ("async upheaval", "thread upheaval", "leaves", "interrupts", "dies", "hooks that raise")


class Aftermath:
    """What was left when it was over."""

    def __init__(self, details: dict[str, Detail], ticks: list[OccurrenceRow], log: Log, children: list[int]) -> None:
        self.details, self.ticks, self.log, self.children = details, ticks, log, children

    def state(self, job: str) -> OccurrenceState:
        return self.details[job].row.status

    def reason(self, job: str) -> str:
        return self.details[job].row.reason or ""

    def attempt(self, job: str) -> tuple[TaskState, str]:
        (attempt,) = self.details[job].attempts
        return attempt.status, attempt.error or ""


async def declare(scene: Scene) -> None:
    # Coroutines that end by themselves come first: where a loop is blocked, nothing on it does.
    soon, later = await scene.soon(2), await scene.soon(4)
    for name in ("ignores cancellation", "stuck thread", "blocks its loop"):
        scene.job(name, name.replace(" ", "_"), later, SHORT)
    scene.job("forks children", "forks_children", soon, Overrides(executor="process"))
    scene.job("prints without end", {"shell": ["yes", "a line of output, again and again"]}, later, SHORT)
    for name in ("async upheaval", "thread upheaval", "leaves", "interrupts"):
        scene.job(name, name.replace(" ", "_"), soon)
    scene.job("dies", "dies", soon, Overrides(executor="process"))
    scene.job("hooks that raise", "tick", soon, hooks=("hook_that_raises", "hook_that_fails"))
    await scene.register()


async def story(tmp_path: Path) -> Aftermath:
    async with playing(tmp_path) as scene:
        await declare(scene)
        async with on_stage(scene):
            children = await _cancelled_when_it_has_children(scene)
            await scene.ended(*LONG_LIVED, *SHORT_LIVED)
            await scene.until(lambda: _has_said(scene.log, "loop.blocked"))
            details = {name: await scene.detail(name) for name in (*LONG_LIVED, *SHORT_LIVED)}
        return Aftermath(details, await scene.rows(TICK), scene.log, children)


async def _cancelled_when_it_has_children(scene: Scene) -> list[int]:
    """How long a worker process takes to begin is nothing that a test should know: it is ended when it is ready."""
    forked = Path(f"{scene.flag}.children")

    def pids() -> list[int]:
        return [int(pid) for pid in forked.read_text().split()] if forked.exists() else []

    async def are_there() -> bool:
        return len(pids()) == 4

    await scene.until(are_there)
    row = await scene.the_one("forks children")
    assert row is not None
    await scene.store.control(None, [CancelRequest(row.ref, "anna: too many children")])
    return pids()


async def _has_said(log: Log, event: str) -> bool:
    return bool(log.said(event))


@pytest.fixture(scope="module")
def aftermath(tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    return asyncio.run(story(tmp_path_factory.mktemp("hostile")))


@pytest.mark.spec("X4", "other work starts on time")
@pytest.mark.parametrize("job", [job for job in LONG_LIVED if job != "forks children"])
def test_while_it_misbehaves_another_job_starts_every_second(job: str, aftermath: Aftermath) -> None:
    hostile = aftermath.details[job].row
    assert hostile.started_at is not None
    assert hostile.ended_at is not None
    meanwhile = [
        tick
        for tick in aftermath.ticks
        if tick.started_at is not None
        and tick.ended_at is not None
        and hostile.started_at <= tick.started_at <= tick.ended_at <= hostile.ended_at
    ]
    assert len(meanwhile) >= 3


@pytest.mark.spec("X4", "other work starts on time")
def test_no_instant_of_the_other_job_was_missed_or_skipped(aftermath: Aftermath) -> None:
    ticks = aftermath.ticks
    seconds = [tick.instant // 1_000_000 for tick in ticks]
    assert seconds == list(range(seconds[0], seconds[0] + len(ticks)))
    wrong = [tick for tick in ticks if tick.status is not OccurrenceState.COMPLETED]
    assert all(tick.owner is None or "shut down" in (tick.reason or "") for tick in wrong)
    assert all(tick.instant >= ticks[-1].instant - 1_000_000 for tick in wrong), "but for the very last"


@pytest.mark.spec("X4", "abandoned")
@pytest.mark.parametrize("job", ["ignores cancellation", "stuck thread", "blocks its loop"])
def test_what_cannot_be_ended_by_force_is_given_up(job: str, aftermath: Aftermath) -> None:
    assert aftermath.state(job) is OccurrenceState.FAILED
    assert aftermath.reason(job) == "task main timed out"
    assert aftermath.attempt(job) == (TaskState.TIMEOUT, "over its time, and was given up")


@pytest.mark.spec("X4", "a blocked loop is noticed")
def test_who_blocks_the_loop_of_the_coroutines_is_named(aftermath: Aftermath) -> None:
    (line,) = aftermath.log.said("loop.blocked")
    assert line["task"] == "blocks its loop/main, attempt 1"


@pytest.mark.spec("X4", "terminated then killed")
def test_a_process_is_killed_with_all_that_it_forked(aftermath: Aftermath) -> None:
    assert aftermath.state("forks children") is OccurrenceState.CANCELLED
    assert aftermath.reason("forks children") == "anna: too many children"
    status, error = aftermath.attempt("forks children")
    assert status is TaskState.CANCELLED
    assert error == "cancelled, and given up"
    assert len(aftermath.children) == 4
    assert [pid for pid in aftermath.children if is_alive(pid)] == []


@pytest.mark.spec("Q4", "output")
@pytest.mark.spec("X4", "terminated then killed")
def test_a_command_that_prints_without_end_is_ended_and_the_tail_of_its_output_is_kept(aftermath: Aftermath) -> None:
    assert aftermath.state("prints without end") is OccurrenceState.FAILED
    (attempt,) = aftermath.details["prints without end"].attempts
    assert (attempt.status, attempt.error) == (TaskState.TIMEOUT, "over its time")
    assert attempt.output is not None
    assert 500_000 < len(attempt.output) <= 1_000_000
    assert "a line of output, again and again" in attempt.output[-1_000:]


@pytest.mark.spec("X10", "whatever it raises")
@pytest.mark.parametrize(
    ("job", "error"),
    [
        ("async upheaval", "Upheaval: in a coroutine"),
        ("thread upheaval", "Upheaval: in a thread"),
        ("leaves", "SystemExit: 3"),
        ("interrupts", "KeyboardInterrupt"),
    ],
)
def test_whatever_a_task_raises_is_a_failure_with_its_traceback(job: str, error: str, aftermath: Aftermath) -> None:
    assert aftermath.state(job) is OccurrenceState.FAILED
    status, text = aftermath.attempt(job)
    assert status is TaskState.FAILED
    assert text.splitlines()[-1].endswith(error)
    assert error in aftermath.reason(job)


@pytest.mark.spec("X10", "a worker that dies")
def test_a_worker_process_that_dies_is_a_failure_that_says_so(aftermath: Aftermath) -> None:
    assert aftermath.state("dies") is OccurrenceState.FAILED
    status, error = aftermath.attempt("dies")
    assert status is TaskState.FAILED
    assert "SIGKILL" in error or "signal 9" in error


@pytest.mark.spec("X7")
def test_a_hook_that_raises_is_logged_and_changes_no_outcome(aftermath: Aftermath) -> None:
    assert aftermath.state("hooks that raise") is OccurrenceState.COMPLETED
    errors = [line["error"].splitlines()[-1] for line in aftermath.log.said("errand.failed")]
    assert sum("Upheaval: in a hook" in error for error in errors) == 2, "when it starts, and when it ends"
    assert sum("RuntimeError: in another hook" in error for error in errors) == 2


def test_nothing_else_went_wrong(aftermath: Aftermath) -> None:
    expected: dict[str, Any] = {
        "attempt.overtime": 4,
        "attempt.given_up": 4,
        "errand.failed": 4,
        "loop.blocked": 1,
    }
    complaints = [line for line in aftermath.log.lines if line.level in ("warning", "error")]
    others = [line for line in complaints if line.event not in (*expected, "loop.free_again")]
    assert others == []
    assert {event: len(aftermath.log.said(event)) for event in expected} == expected
