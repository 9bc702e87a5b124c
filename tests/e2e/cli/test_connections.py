"""A real node with few descriptors, and more silent connections than it has: no run fails, and the log stays short."""

from __future__ import annotations

import re
import resource
import signal
import socket
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program

FILES = 256
"""The limit of open files of the node."""
SILENT = 400
RUNS = 5
JOBS = """
[jobs.tick]
schedule = { every = "1s" }

[[jobs.tick.tasks]]
name = "echo"
shell = ["/bin/echo", "ran"]
"""
LIMITED = ("/bin/sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh")


@pytest.fixture
def descriptors() -> None:
    """Have this process be able to open the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * SILENT + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))


@pytest.mark.spec("Q4", "connections")
@pytest.mark.usefixtures("descriptors")
def test_silent_connections_make_no_run_fail_and_do_not_fill_the_log(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS, "utf-8")
    arguments = ("up", "jobs.toml", "--store", "sqlite:///runs.db", "--health", "127.0.0.1:0")
    with Program(tmp_path, *arguments, web="127.0.0.1:0", within=LIMITED) as node, ExitStack() as silent:
        ports = _ports(node)
        for port in ports:
            for _ in range(SILENT):
                silent.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
        told = len(node.output)
        for _ in range(RUNS):
            node.until(lambda line: "tick" in line)
        for port in ports:
            assert _status(port, "/health/live") == 200, "a request that follows its connection is answered"
        assert [line for line in node.output[told:] if "fail" in line.lower()] == []
        node.signal(signal.SIGTERM)
        assert node.end() == 0
    said = "\n".join(node.errors)
    assert "Too many open files" not in said
    assert said.count("connections.refused") <= 2 * len(ports), "once a minute, and at the end"
    assert len(said) < 10_000


def _ports(node: Program) -> list[int]:
    """The ports of the web server and of the health listener."""
    node.until(lambda line: "dashboard on" in line)
    found = re.findall(r"127\.0\.0\.1:(\d+)", "\n".join(node.output))
    assert len(found) == 2, node.output
    return [int(port) for port in found]


def _status(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.spec("Q4", "connections")
def test_up_raises_the_soft_limit_of_open_files_to_the_hard_one(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS, "utf-8")
    limited = ("/bin/sh", "-c", 'ulimit -Sn 300 && ulimit -Hn 1000 && exec "$@"', "sh")
    with Program(tmp_path, "up", "jobs.toml", "--store", "sqlite:///runs.db", within=limited) as node:
        node.until(lambda line: "tick" in line)
        limits = Path(f"/proc/{node.process.pid}/limits")
        if not limits.exists():
            pytest.skip("this system does not show the limits of a process")
        (line,) = [line for line in limits.read_text("utf-8").splitlines() if line.startswith("Max open files")]
        assert line.split()[3:5] == ["1000", "1000"]
        node.signal(signal.SIGTERM)
        assert node.end() == 0
