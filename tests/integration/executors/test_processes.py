"""Functions in worker processes: how they die, how they are ended, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from itinerary.executors.output import OUTPUT_MAX
from itinerary.executors.processes import ProcessExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.worker import FunctionRunner
from itinerary.executors.worker_protocol import CallRequest
from itinerary.model.attempts import Failed, Outcome, Stopped, Succeeded
from tests.contracts.executors.stage import PATIENCE, Stage, until
from tests.integration.executors import work
from tests.integration.executors.seen import is_alive

MODULE = work.__name__


def run(function: str) -> dict[str, str]:
    return {"python": f"{MODULE}:{function}"}


def staged(tmp_path: Path, workers_max: int = 1, paths: Mapping[str, str] | None = None) -> Stage:
    return Stage(ProcessExecutor(Registry([MODULE, "__main__", "app"]), workers_max=workers_max, paths=paths), tmp_path)


def outcomes_of(tmp_path: Path, *functions: str, paths: Mapping[str, str] | None = None) -> list[Outcome]:
    async def story() -> list[Outcome]:
        async with staged(tmp_path, paths=paths) as stage:
            return [
                await stage.outcome(stage.begin({"python": name} if ":" in name else run(name))) for name in functions
            ]

    return asyncio.run(story())


@pytest.mark.spec("X10", "process pool")
def test_a_worker_is_a_fresh_interpreter_with_our_module_path(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, "parts")
    assert outcome == Succeeded('{"main":true,"path":true,"thread":true,"forked":false}')


@pytest.mark.spec("X10", "process pool")
def test_a_worker_is_used_again_and_one_that_died_is_replaced(tmp_path: Path) -> None:
    first, second, dead, third = outcomes_of(tmp_path, "pid", "pid", "exit_now", "pid")
    assert first == second
    assert isinstance(dead, Failed)
    assert isinstance(third, Succeeded)
    assert third != first


@pytest.mark.spec("X10", "a worker that dies")
@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("exit_now", "its worker process died: exit status 3"),
        ("segfault", "its worker process died: killed by SIGSEGV"),
        ("terminated_by_somebody", "another process sent SIGTERM to its worker process"),
        ("talks_nonsense", "its worker process died: killed by SIGKILL"),
    ],
)
def test_how_a_worker_died_is_told_in_words(tmp_path: Path, function: str, error: str) -> None:
    (outcome,) = outcomes_of(tmp_path, function)
    assert isinstance(outcome, Failed)
    assert outcome.error == error
    if function == "exit_now":
        assert outcome.output == "a last word\n"


@pytest.mark.spec("X10", "capped output")
def test_everything_that_is_printed_is_output_and_each_has_its_own(tmp_path: Path) -> None:
    first, _, second = outcomes_of(tmp_path, "prints", "pid", "prints")
    assert first == second == Succeeded(output="from python\nfrom below\nfrom a child\n")


@pytest.mark.spec("X10", "capped output")
def test_of_too_much_the_end_is_kept(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, "floods")
    assert isinstance(outcome, Succeeded)
    assert outcome.output is not None
    assert outcome.output.endswith("000399999\n")
    assert len(outcome.output.encode()) <= OUTPUT_MAX


def test_a_function_that_breaks_its_output_breaks_nothing_else(tmp_path: Path) -> None:
    broken, after = outcomes_of(tmp_path, "closes_its_output", "pid")
    assert isinstance(broken, Succeeded)
    assert isinstance(after, Succeeded)


def test_what_a_function_changes_in_its_process_is_put_back(tmp_path: Path) -> None:
    first, second = outcomes_of(tmp_path, "leaks", "leaks")
    assert first == second


@pytest.mark.spec("X4", "cancellation")
@pytest.mark.parametrize(("function", "output"), [("cleans_up", "cleaned up\n"), ("waits", "awaited its end\n")])
def test_a_stop_lets_a_function_clean_up(tmp_path: Path, function: str, output: str) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            before = await stage.outcome(stage.begin(run("pid")))
            key = stage.begin(run(function))
            await stage.rung()
            stage.executor.stop([key])
            assert await stage.outcome(key) == Stopped(output=output)
            after = await stage.outcome(stage.begin(run("pid")))
            assert isinstance(after, Succeeded)
            assert after != before, "who knows where the signal found it"

    asyncio.run(story())


@pytest.mark.spec("X4", "process group")
def test_kill_reaches_what_a_function_started(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            key = stage.begin(run("with_child"))
            await stage.rung()
            child = int((tmp_path / "bell.pid").read_text())
            stage.executor.stop([key])
            stage.executor.kill([key])
            assert await stage.outcome(key) == Stopped()
            await until(lambda: not is_alive(child))

    asyncio.run(story())


def test_a_coroutine_function_runs_in_a_process_too(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, "coroutine") == [Succeeded('"nightly/main"')]


@pytest.mark.spec("D6", "elsewhere")
def test_there_is_no_transaction_in_a_process(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, "wants_a_transaction")
    assert isinstance(outcome, Failed)
    assert outcome.names[0] == "itinerary.errors.TransactionError"
    assert "has no transaction here" in outcome.error


def test_what_a_function_logs_is_in_its_output(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, "logs")
    assert isinstance(outcome, Succeeded)
    assert outcome.output is not None
    assert "building" in outcome.output
    assert "run=nightly:1767225600" in outcome.output


def test_an_answer_that_was_a_workers_last_word_counts(tmp_path: Path) -> None:
    """Both are there when the loop looks: that it has answered, and that it is gone."""

    def wait_for_its_end(pid: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while is_alive(pid):
            assert time.monotonic() < deadline, "it does not die"
            time.sleep(0.001)

    async def story() -> None:
        async with staged(tmp_path) as stage:
            await stage.outcome(stage.begin(run("pid")))
            assert isinstance(stage.executor, ProcessExecutor)
            (pid,) = stage.executor.worker_pids
            last, waiting = stage.begin_all([stage.assignment(run(name)) for name in ("answers_and_dies", "pid")])
            wait_for_its_end(pid)  # and the loop with it
            assert isinstance(await stage.outcome(last), Succeeded)
            after = await stage.outcome(waiting)
            assert isinstance(after, Succeeded), "the dead worker had called nothing, so another one does"
            assert after != Succeeded(str(pid))

    asyncio.run(story())


@pytest.mark.spec("X10", "a worker that dies")
def test_a_signal_between_the_end_of_a_function_and_its_answer_loses_neither_it_nor_the_next(tmp_path: Path) -> None:
    done, after = outcomes_of(tmp_path, "is_terminated_before_it_has_answered", "pid")
    assert done == Succeeded('"done"')
    assert isinstance(after, Succeeded)


@pytest.mark.spec("R9", "not called")
def test_a_signal_just_before_the_call_leaves_the_function_uncalled(tmp_path: Path) -> None:
    runner = FunctionRunner()

    async def asked() -> CallRequest:
        async with staged(tmp_path) as stage:
            one = stage.assignment(run("pid"))
            return CallRequest(f"{MODULE}:pid", one.key, one.facts, (MODULE,), {})

    request = asyncio.run(asked())
    stopped = runner.run(request, lambda: runner.terminated(signal.SIGTERM, None))
    assert stopped == Stopped(was_called=False)
    assert runner.run(request) == Succeeded(str(os.getpid()))


@pytest.mark.spec("X10", "a worker that dies")
def test_a_module_that_ends_each_worker_fails_its_task(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import os\nos._exit(7)\n", "utf-8")
    (outcome,) = outcomes_of(tmp_path, "app:work", paths={"app": str(tmp_path / "app.py")})
    assert outcome == Failed("its worker process died: exit status 7")


def test_no_more_workers_than_allowed_and_none_left_behind(tmp_path: Path) -> None:
    async def story() -> set[str | None]:
        async with staged(tmp_path, workers_max=2) as stage:
            keys = stage.begin_all([stage.assignment(run("pid")) for _ in range(40)])
            outcomes = await stage.outcomes(keys)
            return {outcome.result for outcome in outcomes if isinstance(outcome, Succeeded)}

    pids = asyncio.run(story())
    assert 1 <= len(pids) <= 2
    assert not [pid for pid in pids if pid is not None and is_alive(int(pid))]


# -- scripts -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import time

def work(ctx):
    return [__name__, sys.modules[__name__].__file__ == __file__]

class Handle:
    def __init__(self, function):
        self.__wrapped__ = function

@Handle
def wrapped():
    return "found behind its handle"

if __name__ == "__main__":
    raise SystemExit("it was run, not loaded")
"""


@pytest.mark.spec("X10", "a script by its path")
def test_a_script_is_loaded_from_its_path_under_its_name(tmp_path: Path) -> None:
    script = tmp_path / "somewhere" / "app.py"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    paths = {"app": str(script), "__main__": str(script)}
    outcomes = outcomes_of(tmp_path, "app:work", "app:work", "__main__:work", "app:wrapped", paths=paths)
    assert outcomes == [
        Succeeded('["app",true]'),
        Succeeded('["app",true]'),
        Succeeded('["__itinerary_main__",true]'),
        Succeeded('"found behind its handle"'),
    ]


@pytest.mark.spec("X10", "a script by its path")
def test_a_script_that_cannot_be_loaded_fails_its_task_and_says_so(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text("1 / 0\n")
    first, second, other = outcomes_of(tmp_path, "app:work", "app:work", "pid", paths={"app": str(script)})
    for outcome in (first, second):
        assert isinstance(outcome, Failed)
        assert outcome.names[0] == "ZeroDivisionError"
    assert isinstance(other, Succeeded)


# -- when the parent dies ----------------------------------------------------------------------------------------------

PARENT = """
import asyncio, sys
from pathlib import Path
from itinerary.executors.processes import ProcessExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.worker import FunctionRunner
from itinerary.executors.worker_protocol import CallRequest
from tests.contracts.executors.stage import Stage

async def story():
    executor = ProcessExecutor(Registry(["tests"]), workers_max=2)
    async with Stage(executor, Path(sys.argv[1])) as stage:
        stage.begin({"python": "tests.integration.executors.work:with_child"})
        await stage.rung()
        await stage.outcome(stage.begin({"python": "tests.integration.executors.work:pid"}))
        child = int(Path(f"{stage.bell.path}.pid").read_text())
        print(*executor.worker_pids, child, flush=True)
        await asyncio.get_running_loop().create_future()

asyncio.run(story())
"""


@pytest.mark.spec("X10", "process pool")
def test_workers_busy_or_idle_end_with_their_parent_even_if_it_is_killed(tmp_path: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    arguments = [sys.executable, "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(  # noqa: S603 - our own
        arguments, stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    asyncio.run(until(lambda: not any(is_alive(pid) for pid in pids)))
