"""A node is killed with SIGKILL: its commands and workers end with it, and no second copy runs beside the first."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from itinerary.executors.supervisor import MARK
from tests.e2e.cli.program import PATIENCE, Program

STORE = "sqlite:///runs.db"
APP = """
import os, time
from itinerary import Itinerary, cron
from pathlib import Path

app = Itinerary(node_heartbeat_interval="2s", kill_grace="1s")
app.job("command", cron("0 0 1 1 *"), on_orphan="rerun").shell("main", ["bash", "command.sh"])

@app.job(cron("0 0 1 1 *"), executor="process", on_orphan="rerun")
def function():
    while True:
        with Path("evidence").open("a") as evidence:
            evidence.write(f"{os.getpid()} function {time.time_ns()}\\n")
        sum(range(300_000))  # in C code, during which no other thread of the worker can run
"""
COMMAND = """
note() { while :; do echo "$1 $2 $(date +%s%N)" >> evidence; sleep 0.02; done; }
trap '' TERM
note $$ grandchild &
setsid sh -c 'while :; do echo "$0 daemon $(date +%s%N)" >> evidence; sleep 0.02; done' $$ &
note $$ leader
"""


class Copies:
    """What the copies of a run wrote: which process of which copy was running, and when."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "evidence"

    def lines(self) -> list[tuple[str, str, int]]:
        text = self._path.read_text() if self._path.exists() else ""
        whole = [line.split() for line in text.splitlines() if line.count(" ") == 2]
        return [(copy, who, int(at)) for copy, who, at in whole]

    def wait_for(self, number: int, roles: set[str]) -> None:
        """Wait until so many copies have been seen, each in all these roles."""
        deadline = time.monotonic() + 4 * PATIENCE  # others have to find out first that the node is dead
        while True:
            seen: dict[str, set[str]] = {}
            for copy, who, _ in self.lines():
                seen.setdefault(copy, set()).add(who)
            if sum(found >= roles for found in seen.values()) >= number:
                return
            assert time.monotonic() < deadline, f"there are no {number} copies: {seen}"
            time.sleep(0.01)

    def must_not_overlap(self) -> None:
        for (_, end), (start, _) in pairwise(self.intervals()):
            assert end < start, f"two copies ran for {(end - start) / 1e9:.2f} s at the same time"

    def intervals(self) -> list[tuple[int, int]]:
        """From when to when each copy ran, one after the other."""
        found: dict[str, tuple[int, int]] = {}
        for copy, _, at in self.lines():
            first, last = found.get(copy, (at, at))
            found[copy] = min(first, at), max(last, at)
        return sorted(found.values())


@contextmanager
def leaves_no_process(directory: Path) -> Iterator[None]:
    """Whatever a failing test leaves running in its directory is killed. Other tests have nodes with workers, too."""
    try:
        yield
    finally:
        for pid in _marked_in(directory):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _marked_in(directory: Path) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            is_child = entry.name.isdigit() and f"{MARK}=".encode() in (entry / "environ").read_bytes()
            if is_child and (entry / "cwd").readlink() == directory:
                found.add(int(entry.name))
    return found


ROLES = [("command", {"leader", "grandchild", "daemon"}), ("function", {"function"})]


@pytest.mark.skipif(sys.platform != "linux", reason="a daemon is found by /proc")
@pytest.mark.parametrize(("job", "roles"), ROLES)
def test_a_run_that_is_run_again_after_a_kill_never_has_two_copies(tmp_path: Path, job: str, roles: set[str]) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    (tmp_path / "command.sh").write_text(COMMAND, "utf-8")
    copies = Copies(tmp_path)
    with leaves_no_process(tmp_path):
        with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "a") as killed:
            killed.until(lambda line: "Ctrl-C" in line)
            with Program(tmp_path, "trigger", job, "--store", STORE) as trigger:
                assert trigger.end() == 0
            copies.wait_for(1, roles)
            killed.signal(signal.SIGKILL)
            killed.end()
        with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "a") as again:
            copies.wait_for(2, roles)
            again.signal(signal.SIGTERM)
            again.end()
    copies.must_not_overlap()


@pytest.mark.skipif(sys.platform != "linux", reason="a daemon is found by /proc")
@pytest.mark.parametrize(("job", "roles"), ROLES)
def test_another_node_that_takes_over_begins_after_the_end_of_the_first_copy(
    tmp_path: Path, job: str, roles: set[str]
) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    (tmp_path / "command.sh").write_text(COMMAND, "utf-8")
    copies = Copies(tmp_path)
    with leaves_no_process(tmp_path), Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "a") as killed:
        killed.until(lambda line: "Ctrl-C" in line)
        with Program(tmp_path, "trigger", job, "--store", STORE) as trigger:
            assert trigger.end() == 0
        copies.wait_for(1, roles)
        with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "b") as other:
            other.until(lambda line: "Ctrl-C" in line)
            killed.signal(signal.SIGKILL)
            killed.end()
            copies.wait_for(2, roles)
            other.signal(signal.SIGTERM)
            other.end()
    copies.must_not_overlap()
