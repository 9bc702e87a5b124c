"""Each attempt goes to the executor that can run it; a broken one costs its own tasks and no other."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from itinerary.errors import ConfigError
from itinerary.executors import plugin as guarded
from itinerary.executors.definitions import ForeignTask, read_task
from itinerary.executors.registry import Registry
from itinerary.executors.router import ExecutorOptions, standard_router
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, PodMoved, Report, Stopped, Succeeded
from itinerary.model.states import OccurrenceState
from tests.contracts.executors.stage import Stage

pytestmark = pytest.mark.spec("X10", "found through an entry point")


class Lambda:
    """An executor of another package, as good or as bad as a test wants it."""

    behaviour: ClassVar[str] = "good"
    opened: ClassVar[list[Lambda]] = []

    @staticmethod
    def check(run: Any) -> None:
        if run.get("lambda") == "wrong":
            raise ConfigError("lambda: 'wrong' is no function of ours")
        if run.get("lambda") == "crash":
            raise ZeroDivisionError

    def __init__(self) -> None:
        if self.behaviour == "cannot be made":
            raise RuntimeError("no credentials")
        self.seen: list[Assignment] = []
        self.stopped: list[AttemptKey] = []
        self.opened.append(self)

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        self.report = report

    async def close(self) -> None:
        if self.behaviour == "raises":
            raise RuntimeError("cannot close")

    def begin(self, assignments: Sequence[Assignment]) -> None:
        for assignment in assignments:
            self.seen.append(assignment)
            if self.behaviour == "raises":
                raise RuntimeError("out of order")
            if self.behaviour in {"good", "twice"}:
                self.report([PodMoved(assignment.key, OccurrenceState.RUNNING)])
                self.report([Ended(assignment.key, Succeeded('"far away"'))] * (2 if self.behaviour == "twice" else 1))

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        self.stopped += attempts
        raise RuntimeError("cannot stop")

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        raise RuntimeError("cannot kill")


@pytest.fixture
def behaviour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The package is installed: a folder with nothing but its metadata. It behaves as it is told."""
    metadata = tmp_path / "site" / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[itinerary.executors]\nlambda = {__name__}:Lambda\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    Lambda.opened.clear()
    return lambda how: monkeypatch.setattr(sys.modules[__name__].Lambda, "behaviour", how)


async def coroutine() -> str:
    return f"coroutine in {threading.current_thread().name}"


def plain() -> str:
    return f"plain in {threading.current_thread().name}"


def staged(tmp_path: Path, registry: Registry | None = None) -> Stage:
    router, _ = standard_router(registry or Registry([__name__]), ExecutorOptions(workers_max=1))
    return Stage(router, tmp_path)


def test_each_task_goes_where_it_belongs(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            outcomes = await stage.outcomes(
                [
                    stage.begin({"python": f"{__name__}:coroutine"}),
                    stage.begin({"python": f"{__name__}:plain"}),
                    stage.begin({"python": f"{__name__}:coroutine"}, "async"),
                    stage.begin({"python": f"{__name__}:plain"}, "thread"),
                    stage.begin({"shell": ["echo", "a command"]}, "thread"),
                ]
            )
        assert outcomes == [
            Succeeded('"coroutine in itinerary-coroutines"'),
            Succeeded('"plain in itinerary-task"'),
            Succeeded('"coroutine in itinerary-coroutines"'),
            Succeeded('"plain in itinerary-task"'),
            Succeeded(output="a command\n"),
        ]

    asyncio.run(story())


def process_id() -> int:
    """A task that says where it runs."""
    return os.getpid()


def test_a_process_is_another_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, Registry([__name__])) as stage:
            outcome = await stage.outcome(stage.begin({"python": f"{__name__}:process_id"}, "process"))
        assert isinstance(outcome, Succeeded)
        assert outcome.result not in {None, str(os.getpid())}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("run", "executor", "why"),
    [
        ({"python": f"{__name__}:coroutine"}, "thread", "is a coroutine function"),
        ({"python": f"{__name__}:plain"}, "async", "is a plain function"),
        ({"python": f"{__name__}:gone"}, "auto", "has no gone"),
        ({"python": "os:getpid"}, "auto", "may not be imported"),
        ({"nonsense": 1}, "auto", "here is 'nonsense'"),
        ({"shell": ["true"], "cwd": 3}, "auto", "cwd: 3"),
        ({"python": f"{__name__}:plain"}, "cloud", "executor: 'cloud' is not installed"),
    ],
)
def test_what_fits_nowhere_fails_with_the_reason(tmp_path: Path, run: Any, executor: str, why: str) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            outcome = await stage.outcome(stage.begin(run, executor))
        assert isinstance(outcome, Failed)
        assert why in outcome.error

    asyncio.run(story())


def test_an_import_that_takes_long_is_in_nobodys_way_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        os.mkfifo(gate := tmp_path / "go on")
        async with staged(tmp_path, Registry(["slow_module", __name__])) as stage:
            (tmp_path / "slow_module.py").write_text(
                "from pathlib import Path\n"
                f"Path({str(stage.bell.path)!r}).write_text('x')\n"
                f"Path({str(gate)!r}).read_text()\n"
                "def work(): return 'imported'\n"
            )
            slow, stopped = [stage.begin({"python": "slow_module:work"}) for _ in range(2)]
            await stage.rung()
            other = await stage.outcome(stage.begin({"python": f"{__name__}:plain"}))
            assert isinstance(other, Succeeded)
            stage.executor.stop([stopped])
            assert await stage.outcome(stopped) == Stopped(was_called=False)
            await asyncio.to_thread(gate.write_text, "go on")
            assert await stage.outcome(slow) == Succeeded('"imported"')

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "slow_module", raising=False)
    asyncio.run(story())


def test_a_module_that_exits_when_imported_ends_its_attempt_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    async def story() -> None:
        async with staged(tmp_path, Registry(["leaving"])) as stage:
            outcome = await stage.outcome(stage.begin({"python": "leaving:work"}))
        assert isinstance(outcome, Failed)
        assert "leaving:work could not be imported: SystemExit: 3" in outcome.error

    asyncio.run(story())


# -- executors of other packages ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("behaviour")
@pytest.mark.parametrize(("run", "executor"), [({"lambda": "resize"}, "auto"), ({"python": "far:away"}, "lambda")])
def test_an_installed_executor_is_found_by_the_kind_of_the_task_or_by_its_name(
    tmp_path: Path, run: Any, executor: str
) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            key = stage.begin(run, executor)
            assert await stage.outcome(key) == Succeeded('"far away"')
            assert stage.reports[0] == PodMoved(key, OccurrenceState.RUNNING)

    asyncio.run(story())
    assert read_task(run, executor) == ForeignTask("lambda")


@pytest.mark.usefixtures("behaviour")
def test_an_installed_executor_checks_its_own_definitions() -> None:
    with pytest.raises(ConfigError, match="'wrong' is no function of ours"):
        read_task({"lambda": "wrong"})
    with pytest.raises(ConfigError, match="executor: lambda could not check the task: ZeroDivisionError"):
        read_task({"lambda": "crash"})


@pytest.mark.parametrize(
    ("how", "why"),
    [("raises", "RuntimeError: out of order"), ("cannot be made", "could not be opened: RuntimeError: no credentials")],
)
def test_a_broken_executor_fails_its_own_tasks_only(
    tmp_path: Path, behaviour: Callable[[str], None], how: str, why: str
) -> None:
    behaviour(how)

    async def story() -> None:
        with capture_logs():
            async with staged(tmp_path) as stage:
                keys = [stage.begin({"lambda": "x"}), stage.begin({"python": f"{__name__}:plain"})]
                broken, other = await stage.outcomes(keys)
        assert isinstance(broken, Failed)
        assert why in broken.error
        assert isinstance(other, Succeeded)

    asyncio.run(story())


def test_an_end_that_is_reported_twice_goes_no_further(tmp_path: Path, behaviour: Callable[[str], None]) -> None:
    behaviour("twice")

    async def story() -> None:
        with capture_logs() as logs:
            async with staged(tmp_path) as stage:
                await stage.outcome(stage.begin({"lambda": "x"}))
        assert "executor.reported_an_end_twice" in [line["event"] for line in logs]

    asyncio.run(story())


def test_an_executor_that_can_neither_stop_nor_kill_is_given_up(
    tmp_path: Path, behaviour: Callable[[str], None]
) -> None:
    behaviour("silent")

    async def story() -> None:
        with capture_logs() as logs:
            async with staged(tmp_path) as stage:
                key = stage.begin({"lambda": "x"})
                stage.executor.stop([key])
                assert Lambda.opened[0].stopped == [key]
                stage.executor.kill([key])
                assert await stage.outcome(key) == Stopped(abandoned=True)
                left = stage.begin({"lambda": "x"})
            assert left in stage.ended(), "closing gives up the rest"
        assert [line["event"] for line in logs] == ["executor.could_not_stop", "executor.could_not_kill"]

    asyncio.run(story())


@pytest.mark.spec("R9", "not everything ended")
def test_an_executor_that_ignores_the_cancellation_of_its_close_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guarded, "CLOSE_TIMEOUT", 0.1)
    may_end = asyncio.Event()

    class Deaf(Lambda):
        async def close(self) -> None:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue

    async def story() -> None:
        executor = guarded.GuardedExecutor("deaf", Deaf)
        await executor.open(lambda _: None)
        with capture_logs() as lines:
            try:
                async with asyncio.timeout(60):
                    await executor.close()
            finally:
                may_end.set()  # else the loop of a test that fails would wait for it
        assert [line["executor"] for line in lines if line["event"] == "executor.not_closed"] == ["deaf"]

    asyncio.run(story())
