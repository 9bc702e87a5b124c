"""Commands as real processes: their output, their environment, their children, and their end."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from itinerary.executors.output import OUTPUT_MAX
from itinerary.executors.secrets import environment_secret
from itinerary.executors.shell import ShellExecutor
from itinerary.executors.subprocesses import Child, spawn
from itinerary.executors.supervisor import MARK
from itinerary.model.attempts import AttemptKey, Failed, Outcome, Stopped, Succeeded
from tests.contracts.executors.stage import Stage, until
from tests.integration.executors.seen import children, forget_peak, handles, is_alive, memory

CANARY = "correct-horse-battery-staple"
WITHOUT_PIDFD = pytest.mark.parametrize("pidfd", [True, False], ids=["pidfd", "waiting thread"])


def outcome_of(tmp_path: Path, run: dict[str, Any], executor: ShellExecutor | None = None) -> Outcome:
    async def story() -> Outcome:
        async with Stage(executor or ShellExecutor(), tmp_path) as stage:
            return await stage.outcome(stage.begin(run))

    return asyncio.run(story())


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"shell": line, "use_shell": True, **more}


# -- what it runs with, and what it says -------------------------------------------------------------------------------


@pytest.mark.spec("X10", "input of a command")
def test_a_command_reads_its_input_and_nothing_without_it(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, {"shell": ["cat"], "input": "one\ntwo é\n"}) == Succeeded(output="one\ntwo é\n")
    assert outcome_of(tmp_path, {"shell": ["cat"]}) == Succeeded(output=None)
    assert outcome_of(tmp_path, {"shell": ["true"], "input": "x" * 100_000}) == Succeeded(output=None)


@pytest.mark.spec("Q7", "secrets by reference")
def test_the_input_of_a_command_may_be_a_secret_which_its_output_does_not_show(tmp_path: Path) -> None:
    executor = ShellExecutor(secrets=lambda _: CANARY)
    outcome = outcome_of(tmp_path, {"shell": ["cat"], "input": {"secret": "PASSWORD"}}, executor)
    assert isinstance(outcome, Succeeded)
    assert CANARY not in (outcome.output or "")
    assert "PASSWORD" in (outcome.output or "")


@pytest.mark.spec("X10", "shell")
@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("exit 3", "exit status 3"),
        ("exit 255", "exit status 255"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("kill -TERM $$", "killed by SIGTERM"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
@WITHOUT_PIDFD
def test_how_a_command_failed_is_told_in_words(
    tmp_path: Path, line: str, error: str, pidfd: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    outcome = outcome_of(tmp_path, shell(f"echo before; {line}"))
    assert outcome == Failed(error, output="before\n")


@pytest.mark.spec("Q3", "argv")
def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    arguments = ["$(touch hacked)", "; touch hacked", "a b", "*", "", "'\"\\"]
    outcome = outcome_of(tmp_path, {"shell": ["printf", "[%s]\n", *arguments], "cwd": str(tmp_path)})
    assert outcome == Succeeded(output="".join(f"[{argument}]\n" for argument in arguments))
    assert not (tmp_path / "hacked").exists()


@pytest.mark.spec("X10", "shell")
def test_a_command_has_its_directory_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "from the node")
    (tmp_path / "data").mkdir()
    run = shell('pwd; echo "$INHERITED/$OWN"', cwd=str(tmp_path / "data"), env={"OWN": "scratch"})
    assert outcome_of(tmp_path, run) == Succeeded(output=f"{tmp_path}/data\nfrom the node/scratch\n")


@pytest.mark.spec("X10", "shell")
def test_a_command_may_inherit_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "from the node")
    run = {"shell": ["/usr/bin/env"], "inherit_env": False, "env": {"OWN": "x"}}
    outcome = outcome_of(tmp_path, run)
    assert isinstance(outcome, Succeeded)
    own, mark = str(outcome.output).split()
    assert own == "OWN=x"
    assert mark.startswith(MARK)  # by which it is found if its node dies


@pytest.mark.spec("X10", "shell")
@pytest.mark.parametrize(
    ("run", "error"),
    [
        ({"shell": ["/no/such/program"]}, "shell: /no/such/program could not be started: No such file or directory"),
        ({"shell": ["/etc/passwd"]}, "shell: /etc/passwd could not be started: Permission denied"),
        ({"shell": ["true"], "cwd": "/no/such"}, "cwd: /no/such: there is no such directory on this node"),
    ],
)
def test_a_command_that_cannot_start_says_why(tmp_path: Path, run: dict[str, Any], error: str) -> None:
    outcome = outcome_of(tmp_path, run)
    assert isinstance(outcome, Failed)
    assert outcome.error == error
    assert "OSError" in outcome.names


def test_a_command_reads_nothing(tmp_path: Path) -> None:
    assert outcome_of(tmp_path, {"shell": ["cat"]}) == Succeeded()


@pytest.mark.spec("Q7", "who a task runs as")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run commands as somebody else")
def test_whom_commands_run_as_is_a_setting_of_the_node(tmp_path: Path) -> None:
    run = {"shell": ["sh", "-c", "id -u; id -g; id -G"], "cwd": "/"}
    outcome = outcome_of(tmp_path, run, ShellExecutor(user=65534, group=65534))
    assert outcome == Succeeded(output="65534\n65534\n65534\n")


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q7", "secrets")
def test_a_secret_reaches_its_command_and_is_seen_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_SECRET_TOKEN", CANARY)
    monkeypatch.setenv("ITINERARY_SECRET_OTHER", "not for this command")
    line = 'printf %s "$TOKEN" | wc -c; echo "$TOKEN" >&2; env | grep -c ITINERARY_SECRET; exit 4'
    with capture_logs() as logs:
        outcome = outcome_of(tmp_path, shell(line, env={"TOKEN": {"secret": "TOKEN"}}))
    assert outcome == Failed("exit status 4", output=f"{len(CANARY)}\n[secret TOKEN]\n0\n")
    assert CANARY not in str(logs)


@pytest.mark.spec("Q7", "secrets")
def test_a_secret_that_is_not_there_fails_the_command_before_it_runs(tmp_path: Path) -> None:
    run = shell(f"touch {tmp_path}/ran", env={"TOKEN": {"secret": "NOT_THERE"}})
    outcome = outcome_of(tmp_path, run, ShellExecutor(secrets=environment_secret))
    assert isinstance(outcome, Failed)
    assert outcome.error == (
        "secret NOT_THERE: not there; set ITINERARY_SECRET_NOT_THERE in the environment of the node, or "
        "ITINERARY_SECRET_NOT_THERE_FILE to the path of a file that holds it"
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.spec("Q7", "secrets")
def test_what_a_resolver_says_when_it_fails_is_not_repeated(tmp_path: Path) -> None:
    def resolver(name: str) -> str:
        raise RuntimeError(f"vault refused {CANARY}")

    outcome = outcome_of(tmp_path, shell("true", env={"T": {"secret": "T"}}), ShellExecutor(secrets=resolver))
    assert isinstance(outcome, Failed)
    assert outcome.error == "secret T: cannot be resolved, RuntimeError"


# -- output ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q4", "output")
@pytest.mark.spec("X10", "capped output")
def test_a_command_that_prints_without_end_costs_no_memory(tmp_path: Path) -> None:
    size = 200_000_000
    forget_peak()
    before = memory("VmRSS")
    outcome = outcome_of(tmp_path, shell(f"yes 'a line of output' | head -c {size}; echo; echo the end"))
    grown = memory("VmHWM") - before
    assert isinstance(outcome, Succeeded)
    assert outcome.output is not None
    assert outcome.output.endswith("\nthe end\n")
    assert len(outcome.output.encode()) <= OUTPUT_MAX
    note = outcome.output.partition("\n")[0]
    missing = int(note.split()[1])
    kept = len(outcome.output.encode()) - len(note.encode()) - 1
    assert missing + kept == size + len("\nthe end\n")
    assert grown < 32_000, f"{grown} kB for at most {OUTPUT_MAX} bytes"


@pytest.mark.spec("Q7", "output is text")
def test_output_is_text_whatever_comes(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, {"shell": ["printf", r"\033[2J\000\377 caf\303\251\n"]})
    assert outcome == Succeeded(output="�[2J�� café\n")


# -- its children, and its end -----------------------------------------------------------------------------------------


async def pid_from(path: Path) -> int:
    def written() -> str:
        return path.read_text() if path.exists() else ""

    await until(lambda: written().endswith("\n"))
    return int(written())


@pytest.mark.spec("X4", "process group")
@WITHOUT_PIDFD
def test_kill_reaches_what_the_command_forked(tmp_path: Path, pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open")

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            line = f"sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1000; done' & wait"
            key = stage.begin(shell(line))
            child = await pid_from(tmp_path / "pid")
            stage.executor.stop([key])
            stage.executor.kill([key])
            assert await stage.outcome(key) == Stopped()
            await until(lambda: not is_alive(child))

    asyncio.run(story())


@pytest.mark.spec("X4", "process group")
def test_what_ignores_a_stop_is_killed_with_its_group_even_when_the_leader_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            line = f"echo said; sh -c 'trap \"\" TERM; echo $$ > {tmp_path}/pid; while :; do sleep 1000; done' & wait"
            key = stage.begin(shell(line))
            child = await pid_from(tmp_path / "pid")
            leader = os.getpgid(child)
            stage.executor.stop([key])
            await until(lambda: not is_alive(leader))
            assert is_alive(child)
            assert key not in stage.ended(), "somebody of it is still at work"
            stage.executor.kill([key])
            assert await stage.outcome(key) == Stopped(output="said\n")
            await until(lambda: not is_alive(child))

    asyncio.run(story())


@pytest.mark.spec("X4", "process group")
def test_those_who_need_a_moment_to_obey_get_it(tmp_path: Path) -> None:
    """The leader goes at once; its child has something to put away first."""

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            os.mkfifo(tmp_path / "go on")
            (tmp_path / "child.sh").write_text(
                f"trap \"cat '{tmp_path}/go on'; exit\" TERM\necho $$ > {tmp_path}/pid\nwhile :; do sleep 0.01; done\n"
            )
            key = stage.begin(shell(f"sh {tmp_path}/child.sh & wait"))
            leader = os.getpgid(await pid_from(tmp_path / "pid"))
            stage.executor.stop([key])
            await until(lambda: not is_alive(leader))
            assert key not in stage.ended()
            await asyncio.to_thread((tmp_path / "go on").write_text, "put away\n")
            outcome = await stage.outcome(key)
            assert isinstance(outcome, Stopped)
            assert outcome.output is not None
            assert outcome.output.endswith("put away\n")

    asyncio.run(story())


@pytest.mark.spec("X4", "process group")
def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def story() -> int:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            key = stage.begin(shell(f"sleep 1000 & echo $! > {tmp_path}/pid; echo done"))
            assert await stage.outcome(key) == Succeeded(output="done\n")
            left = await pid_from(tmp_path / "pid")
            assert is_alive(left), "what a command leaves behind on purpose is left alone"
            return left

    os.kill(asyncio.run(story()), signal.SIGKILL)


@pytest.mark.spec("X4", "cancellation")
def test_a_command_that_catches_the_signal_and_exits_well_was_stopped_all_the_same(tmp_path: Path) -> None:
    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            line = f"trap 'echo cleaned up; exit 0' TERM; echo > {stage.bell.path}; while :; do :; done"
            key = stage.begin(shell(line))
            await stage.rung()
            stage.executor.stop([key])
            assert await stage.outcome(key) == Stopped(output="cleaned up\n")

    asyncio.run(story())


def test_commands_run_on_a_loop_that_is_not_in_the_main_thread(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome_of(tmp_path, shell("echo here; exit 7"))))
    thread.start()
    thread.join()
    assert outcomes == [Failed("exit status 7", output="here\n")]


def test_nothing_is_left_of_many_commands(tmp_path: Path) -> None:
    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            await stage.outcome(stage.begin(shell("true")))
            before, others = handles(), children()
            keys: list[AttemptKey] = stage.begin_all([stage.assignment(shell("exit 1")) for _ in range(50)])
            keys += stage.begin_all([stage.assignment({"shell": ["/no/such"]}) for _ in range(50)])
            await stage.outcomes(keys)
            assert handles() == before
            assert set(children()) <= set(others), "a database server of other tests may be among them"

    asyncio.run(story())


def test_a_program_that_collects_our_children_does_not_break_us(tmp_path: Path) -> None:
    """Somebody in the embedding program calls `os.wait`."""

    def collect(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            key = stage.begin(shell(f"echo $$ > {tmp_path}/pid; read line < {stage.bell.path}", cwd=str(tmp_path)))
            pid = await pid_from(tmp_path / "pid")
            collect(pid)
            outcome = await stage.outcome(key)
        assert isinstance(outcome, Failed)
        assert outcome.error == "ended, but something else in this program has collected its exit status"

    asyncio.run(story())


def test_a_child_that_was_collected_before_anybody_watched_it_has_ended() -> None:
    process = spawn(["true"])
    os.waitpid(process.pid, 0)

    async def story() -> int | None:
        ended: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        Child(asyncio.get_running_loop(), process, ended.set_result)
        return await ended

    assert asyncio.run(story()) is None
