"""Children end with their node, however it dies, and whatever else dies with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from itinerary.executors.shell import ShellExecutor
from itinerary.executors.supervision import directory
from itinerary.executors.supervisor import MARK, end_children
from itinerary.model.attempts import Succeeded
from tests.contracts.executors.stage import Stage, until
from tests.integration.executors.seen import children, is_alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the test reads /proc")

NODE = """
import asyncio, os, sys
from pathlib import Path
from itinerary.executors.processes import ProcessExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.shell import ShellExecutor
from tests.contracts.executors.stage import Stage

async def story(run):
    executor = ShellExecutor() if "shell" in run else ProcessExecutor(Registry(["tests"]), workers_max=1)
    async with Stage(executor, Path(sys.argv[1])) as stage:
        key = stage.begin(run)
        if "python" in run:
            await stage.rung()
            print(*executor.worker_pids, flush=True)
        {then}
        await asyncio.get_running_loop().create_future()

asyncio.run(story({run}))
"""


class Node:
    """A process that runs one command or function, and says which processes belong to that."""

    def __init__(self, directory: Path, run: dict[str, Any], then: str = "pass") -> None:
        path = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, "-c", NODE.replace("{run}", repr(run)).replace("{then}", then), str(directory)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(directory)},
        )
        self._handles: list[int] = []

    def pids(self, path: Path | None = None, count: int = 1) -> list[int]:
        """The processes that the run consists of, as they wrote them into a file; else as the node printed them."""

        def written() -> list[int]:
            assert self._process.poll() is None, "the node ended"
            return [int(word) for word in path.read_text().split()] if path is not None and path.exists() else []

        if path is None:
            assert self._process.stdout is not None
            pids = [int(word) for word in self._process.stdout.readline().split()]
        else:
            asyncio.run(until(lambda: len(written()) == count))
            pids = written()
        self._handles += [os.pidfd_open(pid) for pid in pids]
        assert all(is_alive(pid) for pid in pids)
        return pids

    @property
    def supervisor(self) -> int:
        """The process id of its supervisor."""
        found = [pid for pid in _children_of(self._process.pid) if b"supervisor.py" in _command_line(pid)]
        return found[0] if found else 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Leave nothing behind."""
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        for handle in self._handles:  # not by pid: most of them are gone, and another process may have that pid now
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made: list[Node] = []
    yield made
    for node in made:
        node.end()


def _children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"shell": line, "use_shell": True, **more}


def all_roles(path: Path) -> dict[str, Any]:
    """A command that ignores SIGTERM, with a child in its group and a daemon in a session of its own."""
    return shell(
        f"trap '' TERM; sleep 1000 & a=$!; setsid sh -c 'echo $$ > {path}.daemon; exec sleep 1000' & "
        f"while ! [ -s {path}.daemon ]; do sleep 0.01; done; echo $$ $a $(cat {path}.daemon) > {path}; wait; wait"
    )


def gone(pids: list[int]) -> None:
    asyncio.run(until(lambda: not any(is_alive(pid) for pid in pids)))


def test_a_command_ends_with_a_killed_node_and_so_does_all_that_it_started(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(node := Node(tmp_path, all_roles(tmp_path / "pids")))
    pids = node.pids(tmp_path / "pids", 3)
    node.kill()
    gone(pids)


def test_a_worker_that_lets_no_other_thread_run_ends_with_a_killed_node(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(node := Node(tmp_path, {"python": "tests.integration.executors.work:never_lets_others_run"}))
    pids = node.pids()
    node.kill()
    gone(pids)


def test_a_process_that_a_node_forked_does_not_keep_its_children_alive(tmp_path: Path, nodes: list[Node]) -> None:
    path = tmp_path / "pids"
    then = (
        f"path = Path({str(path)!r})\n"
        "        while len(path.read_text().split() if path.exists() else []) < 3: await asyncio.sleep(0.01)\n"
        "        pid = os.fork()\n"  # it holds the pipe to the supervisor open, as multiprocessing's processes do
        "        if not pid:\n"
        "            import time; time.sleep(1000)\n"
        f"        Path({str(path) + '.forked'!r}).write_text(str(pid))"
    )
    nodes.append(node := Node(tmp_path, all_roles(path), then))
    pids = node.pids(path, 3)
    (forked,) = node.pids(tmp_path / "pids.forked")
    try:
        node.kill()
        gone(pids)
        assert is_alive(forked)
    finally:
        os.kill(forked, signal.SIGKILL)


def test_a_supervisor_that_was_killed_is_replaced(tmp_path: Path, nodes: list[Node]) -> None:
    nodes.append(node := Node(tmp_path, all_roles(tmp_path / "pids")))
    pids = node.pids(tmp_path / "pids", 3)
    first = node.supervisor
    os.kill(first, signal.SIGKILL)
    asyncio.run(until(lambda: node.supervisor not in (0, first)))
    (table,) = (tmp_path / f"itinerary-{os.geteuid()}").iterdir()
    assert all(is_alive(pid) for pid in pids)
    asyncio.run(until(lambda: _is_locked_by(node.supervisor, table)))
    node.kill()
    gone(pids)


def _is_locked_by(pid: int, path: Path) -> bool:
    inode = f":{path.stat().st_ino} "
    return any(inode in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.parametrize("with_supervisor", [False, True])
def test_the_next_child_starts_when_the_children_of_a_killed_node_are_gone(
    tmp_path: Path, nodes: list[Node], monkeypatch: pytest.MonkeyPatch, with_supervisor: bool
) -> None:
    nodes.append(node := Node(tmp_path, all_roles(tmp_path / "pids")))
    pids = node.pids(tmp_path / "pids", 3)
    supervisor, process = node.supervisor, node._process
    process.send_signal(signal.SIGSTOP)  # so that it cannot replace its supervisor
    os.kill(supervisor, signal.SIGKILL if with_supervisor else signal.SIGSTOP)
    node.kill()
    assert all(is_alive(pid) for pid in pids)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path / "next") as stage:
            alive = " || ".join(f"grep -qs '^State:.[RSDT]' /proc/{pid}/status" for pid in pids)
            key = stage.begin(shell(f"! ( {alive} )"))
            if not with_supervisor:
                os.kill(supervisor, signal.SIGCONT)
            assert isinstance(await stage.outcome(key), Succeeded)

    (tmp_path / "next").mkdir()
    asyncio.run(story())
    assert not any(directory().iterdir())


def test_what_a_finished_command_left_running_is_left_alone(tmp_path: Path, nodes: list[Node]) -> None:
    path = tmp_path / "pids"
    run = shell(f"sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > {path}")
    then = f"await stage.outcome(key)\n        Path({str(path) + '.ended'!r}).write_text(str(os.getpid()))"
    nodes.append(node := Node(tmp_path, run, then))
    node.pids(tmp_path / "pids.ended")
    (left,) = node.pids(path)
    supervisor = node.supervisor
    node.kill()
    gone([supervisor])
    assert is_alive(left)


def test_a_closed_executor_leaves_no_supervisor_and_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(children())

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            assert isinstance(await stage.outcome(stage.begin(shell("true"))), Succeeded)
            assert len(list(directory().iterdir())) == 1

    asyncio.run(story())
    assert not any(directory().iterdir())
    assert not set(children()) - before


def test_a_child_that_was_just_being_started_is_found_by_its_mark() -> None:
    child = subprocess.Popen(["/bin/sleep", "1000"], env={MARK: "table.7"})
    other = subprocess.Popen(["/bin/sleep", "1000"], env={MARK: "table.8"})
    try:
        assert end_children("table", {7: 0})
        assert child.wait(60) == -signal.SIGTERM
        assert other.poll() is None
    finally:
        for process in (child, other):
            process.kill()
            process.wait()


def test_without_a_place_for_the_table_commands_run_and_the_log_says_that_nothing_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / f"itinerary-{os.geteuid()}").write_text("in the way")

    async def story() -> None:
        async with Stage(ShellExecutor(), tmp_path) as stage:
            for _ in range(2):
                assert isinstance(await stage.outcome(stage.begin(shell("true"))), Succeeded)

    with capture_logs() as logs:
        asyncio.run(story())
    assert [line["event"] for line in logs] == ["children.unsupervised"]
