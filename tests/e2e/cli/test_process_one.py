"""A node as process 1 of a container: no process that others leave behind stays a zombie; no exit status is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program

UNSHARE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
STORE = "sqlite:///runs.db"
APP = """
import os, subprocess
from itinerary import Itinerary, every

app = Itinerary(node_heartbeat_interval="1s")
app.job("orphans", every("1s")).shell("main", "sleep 0.05 & setsid sleep 0.05 & exit 0", use_shell=True)
app.job("status", every("1s")).shell("main", "exit 3", use_shell=True)

@app.job(every("1s"))
def function():
    assert subprocess.run("sleep 0.05 & exit 7", shell=True).returncode == 7
    waited = subprocess.Popen(["sh", "-c", "exit 9"], start_new_session=True)
    subprocess.run(["sleep", "0.1"])
    assert waited.wait() == 9
"""


def may_unshare() -> bool:
    """True if this user may make a process namespace, as only root may, unless a container forbids even that."""
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603 - our own
    )


def stats() -> dict[int, tuple[str, int]]:
    """The state and the parent of each process."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            found[int(entry.name)] = state, int(parent)
    return found


def descendants(of: int) -> dict[int, str]:
    """The state of each process below this one."""
    seen, family = stats(), {of}
    while more := {pid for pid, (_, parent) in seen.items() if parent in family} - family:
        family |= more
    return {pid: seen[pid][0] for pid in family - {of}}


def until_no_zombies(of: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while "Z" in descendants(of).values():
        assert time.monotonic() < deadline, f"zombies stay: {descendants(of)}"
        time.sleep(0.05)


def first_of(program: Program) -> int:
    """The process id, outside, of process 1 inside."""
    (found,) = [pid for pid, (_, parent) in stats().items() if parent == program.process.pid]
    return found


@pytest.mark.skipif(not may_unshare(), reason="needs unshare(1), and the permission to make a process namespace")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_that_is_process_1_leaves_no_zombies_and_keeps_every_exit_status(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, within=UNSHARE) as program:
        seen = {"orphans": 0, "status": 0, "function": 0}
        while min(seen.values()) < 2:
            line = program.until(lambda line: any(f"  {job} " in line for job in seen))
            seen[line.split()[1]] += 1
        until_no_zombies(program.process.pid)
        os.kill(first_of(program), number)
        assert program.end() == 0
    assert not [line for line in program.output if "  function " in line and "completed" not in line]
    assert all("exit status 3" in line for line in program.output if "  status " in line and "failed" in line)
    assert any("exit status 3" in line for line in program.output)


@pytest.mark.skipif(not may_unshare(), reason="needs unshare(1), and the permission to make a process namespace")
def test_a_node_that_is_killed_as_the_child_of_process_1_ends_the_container(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, within=UNSHARE) as program:
        program.until(lambda line: "Ctrl-C" in line)
        first = first_of(program)
        (node,) = [pid for pid, (_, parent) in stats().items() if parent == first and is_node(pid)]
        os.kill(node, signal.SIGKILL)
        assert program.end() == 128 + signal.SIGKILL


def is_node(pid: int) -> bool:
    try:
        return b"itinerary\0up" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
