"""Heavy requests against a running node: bounded, in a worker process, ended with their client, paid in CPU seconds."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="worker processes are found in /proc")

STORE = "sqlite:///runs.db"
APP = """
from itinerary import Itinerary, every

app = Itinerary()


@app.job(every("1s"))
def often() -> None: ...
"""
SETTINGS = 'web_work_timeout = "10m"\n'
WORKER = b"itinerary.web.heavy.worker"


class Node:
    """A node that serves HTTP, and a token that may only read."""

    def __init__(self, program: Program, address: str, token: str) -> None:
        self._program, self.address, self._token = program, address, token

    def send(self, method: str, path: str, body: object = None) -> HTTPConnection:
        """Send a request and do not wait for the answer."""
        connection = HTTPConnection(self.address, timeout=PATIENCE * 5)
        content = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {self._token}"} | ({"Content-Type": "application/json"} if content else {})
        connection.request(method, path, content, headers)
        return connection

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, HTTPResponse, dict[str, object]]:
        """Send a request. Returns the status, the answer for its headers, and the JSON in it."""
        connection = self.send(method, path, body)
        try:
            answer = connection.getresponse()
            return answer.status, answer, json.loads(answer.read())
        finally:
            connection.close()

    def workers(self) -> list[int]:
        """The worker processes of the node."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[1])
                if parent == self._program.process.pid and WORKER in (path / "cmdline").read_bytes():
                    found.append(int(path.name))
            except (OSError, ValueError):
                continue  # it has ended meanwhile
        return found


@contextmanager
def node(directory: Path, settings: str = SETTINGS) -> Iterator[Node]:
    """A running node whose store has a token with the scope `read`."""
    (directory / "app.py").write_text(APP, "utf-8")
    (directory / "itinerary.toml").write_text(settings, "utf-8")
    with Program(directory, "token", "create", "reader", "--scope", "read", "--store", STORE) as made:
        assert made.end() == 0
    token = next(line for line in made.output if line.startswith("itn_"))
    with Program(directory, "up", "app.py", "--store", STORE, web="127.0.0.1:0") as program:
        line = program.until(lambda line: "dashboard on" in line)
        yield Node(program, line.rpartition("http://")[2].strip(), token)


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what must happen."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """True if the process runs, stopped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


TASK = {"name": "call", "http": "https://example.com/"}
FILE = '[jobs.extra]\nschedule = "* * * * *"\n[[jobs.extra.tasks]]\nname = "call"\nhttp = "https://example.com/"\n'


@pytest.mark.spec("Q4", "windows")
def test_a_read_token_that_asks_for_too_long_a_window_is_refused_without_a_worker(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        refusals = {
            ("POST", "/api/v1/plan"): {"file": FILE, "window": "145000d"},
            ("POST", "/api/v1/simulate"): {"for": "32d"},
            ("GET", "/api/v1/upcoming?for=366d"): None,
            ("GET", "/api/v1/audit?from=2020-01-01T00:00:00Z&to=2020-03-01T00:00:00Z"): None,
        }
        for (method, path), body in refusals.items():
            status, _, problem = here.ask(method, path, body)
            assert (status, problem["title"]) == (400, "Too much"), (path, problem)
            assert "longer than 31 days" in str(problem["detail"])
        assert here.workers() == []


@pytest.mark.spec("Q4", "instants")
def test_a_short_enough_window_with_too_many_instants_is_refused(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        many = {f"j{number}": {"schedule": {"every": "1s"}, "tasks": [TASK]} for number in range(2)}
        status, _, problem = here.ask("POST", "/api/v1/simulate", {"jobs": many, "for": "31d"})
        assert (status, problem["title"]) == (400, "Too much"), problem
        assert "more than 100,000 occurrences" in str(problem["detail"])
        status, _, problem = here.ask("GET", "/api/v1/upcoming?for=31d")
        assert (status, problem["title"]) == (400, "Too much"), problem
        assert "more than 1,000,000 instants" in str(problem["detail"])


@pytest.mark.spec("Q4", "not on the web loop")
def test_a_stopped_worker_holds_up_nothing_and_is_killed_when_its_client_leaves(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200
        (worker,) = here.workers()
        os.kill(worker, signal.SIGSTOP)
        waiting = here.send("GET", "/api/v1/upcoming?for=1d")
        # The worker does nothing, so whatever answers now is another process.
        assert here.ask("GET", "/health/live")[0] == 200
        assert here.ask("GET", "/api/v1/jobs")[0] == 200
        assert is_alive(worker)
        waiting.close()
        until(lambda: not is_alive(worker))
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200


@pytest.mark.spec("Q4", "memory")
def test_a_request_that_needs_too_much_memory_is_refused_and_the_node_goes_on(tmp_path: Path) -> None:
    with node(tmp_path, SETTINGS + "web_work_megabytes = 24\n") as here:
        status, _, problem = here.ask("GET", "/api/v1/upcoming?for=11d")
        assert (status, problem["title"]) == (400, "Too much"), problem
        assert "more than 24 MB of memory" in str(problem["detail"])
        assert here.ask("GET", "/health/live")[0] == 200


@pytest.mark.spec("Q4", "CPU seconds")
def test_a_caller_that_has_used_its_cpu_seconds_is_told_when_to_come_back(tmp_path: Path) -> None:
    with node(tmp_path, SETTINGS + 'web_work_cpu_for = "1ms"\n') as here:
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200
        status, answer, problem = here.ask("GET", "/api/v1/upcoming?for=1h")
        assert (status, problem["title"]) == (429, "CPU budget used up")
        wait = int(answer.headers["Retry-After"])
        assert 0 < wait <= 600
        assert "'reader' has used its 0.001 CPU seconds" in str(problem["detail"])
        assert f"ask again in {wait} s" in str(problem["detail"])
        assert here.ask("GET", "/api/v1/jobs")[0] == 200


@pytest.mark.spec("Q4", "deadline")
def test_a_request_that_takes_too_long_is_ended_with_its_worker(tmp_path: Path) -> None:
    with node(tmp_path, 'web_work_timeout = "20s"\n') as here:
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200
        (worker,) = here.workers()
        os.kill(worker, signal.SIGSTOP)
        status, _, problem = here.ask("GET", "/api/v1/upcoming?for=1h")
        assert (status, problem["title"]) == (503, "Too slow"), problem
        assert "longer than 20 s" in str(problem["detail"])
        until(lambda: not is_alive(worker))


def test_a_worker_ends_when_its_node_is_killed(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200
        (worker,) = here.workers()
        here._program.signal(signal.SIGKILL)
        until(lambda: not is_alive(worker))


def test_a_client_that_closes_half_of_its_connection_has_left(tmp_path: Path) -> None:
    with node(tmp_path) as here:
        assert here.ask("GET", "/api/v1/upcoming?for=1h")[0] == 200
        (worker,) = here.workers()
        os.kill(worker, signal.SIGSTOP)
        waiting = here.send("POST", "/api/v1/simulate", {"for": "1d"})
        assert here.ask("GET", "/health/live")[0] == 200
        assert waiting.sock is not None
        waiting.sock.shutdown(socket.SHUT_WR)
        until(lambda: not is_alive(worker))
        waiting.close()
