"""`itinerary up` with its dashboard: where it is, and what becomes of an address that cannot be had."""

from __future__ import annotations

import re
import signal
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from itinerary.config.log_setup import engine_log
from itinerary.errors import NodeError
from itinerary.observe.listen_address import ListenAt
from itinerary.web.server import WebServer
from tests.e2e.cli.program import Program

APP = """
from itinerary import Itinerary, every

app = Itinerary()


@app.job(every("1h"))
def hourly() -> None: ...
"""
STORE = "sqlite:///runs.db"


def asked(address: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection(address, timeout=30)
    try:
        connection.request("GET", path, headers={"Accept": "text/html"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.spec("U10", "up")
def test_a_node_has_a_dashboard_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, web="127.0.0.1:0") as node:
        line = node.until(lambda line: "dashboard on" in line).strip()
        found = re.fullmatch(r"dashboard on http://(127\.0\.0\.1:\d+)", line)
        assert found is not None
        status, body = asked(found[1], "/")
        assert status == 200
        assert "<title>Now · Itinerary</title>" in body
        assert asked(found[1], "/nowhere")[0] == 404
        node.signal(signal.SIGTERM)
        assert node.end() == 0


@pytest.mark.spec("Q1", "an address that is taken")
def test_an_address_that_is_taken_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Program(tmp_path, "up", "app.py", "--store", STORE, "--web", f"127.0.0.1:{port}") as node:
            assert node.end() == 1
    assert node.errors[0].startswith(f"itinerary: web: 127.0.0.1:{port} cannot be listened on: ")
    assert not (tmp_path / "runs.db").exists()


def test_a_port_that_nobody_named_gives_way_to_the_next_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = ListenAt("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(NodeError, match="cannot be listened on"):
            WebServer(at, log=engine_log()).bind()
        moved = WebServer(at, log=engine_log(), may_move=True)
        try:
            assert at.port < moved.bind().port <= at.port + 20
        finally:
            moved.stop()


def test_two_answers_to_where_the_dashboard_is_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--web", "127.0.0.1:0", "--no-web") as node:
        assert node.end() == 1
    assert node.errors[0] == "itinerary: --web and --no-web contradict each other; give one of them"


RUNS = """
import pathlib

from itinerary import Itinerary, every

app = Itinerary()


@app.job(every("1s"))
def ticks() -> None:
    with pathlib.Path("ran").open("a") as file:
        file.write("x")
"""


@pytest.mark.spec("Q1", "refuses before anything runs")
def test_an_address_that_others_can_reach_without_a_token_ends_the_node_before_it_starts_anything(
    tmp_path: Path,
) -> None:
    (tmp_path / "app.py").write_text(RUNS, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--web", "0.0.0.0:0") as node:
        assert node.end() == 1
    assert re.fullmatch(
        r"itinerary: web: 0\.0\.0\.0:\d+ can be reached from elsewhere, and there is no token yet that could keep"
        r" others out; make one with `itinerary token create NAME --scope admin`, or listen on loopback: 127\.0\.0\.1",
        node.errors[0],
    )
    assert node.output == []
    assert not (tmp_path / "ran").exists()
    with Program(tmp_path, "nodes", "--all", "--json", "--store", STORE) as nodes:
        assert nodes.end() == 0
    assert "".join(nodes.output) == "[]"


@pytest.mark.spec("Q1", "refuses before anything runs")
def test_a_name_of_the_server_that_is_none_ends_the_node_before_it_starts_anything(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(RUNS, "utf-8")
    (tmp_path / "itinerary.toml").write_text('web_names = ["ftp://jobs.example.com"]\n', "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--web", "127.0.0.1:0") as node:
        assert node.end() == 1
    assert "is no name of a host; write https://jobs.example.com, or the name alone" in node.errors[0]
    assert node.output == []
    assert not (tmp_path / "ran").exists()


@pytest.mark.spec("Q1", "listens elsewhere with a token")
def test_an_address_that_others_can_reach_is_served_once_there_is_a_token(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "token", "create", "me", "--scope", "admin", "--store", STORE) as made:
        assert made.end() == 0
    with Program(tmp_path, "up", "app.py", "--store", STORE, web="0.0.0.0:0") as node:
        line = node.until(lambda line: "dashboard on" in line)
        port = line.strip().rpartition(":")[2]
        assert asked(f"127.0.0.1:{port}", "/")[0] in {303, 401}
        node.signal(signal.SIGTERM)
        assert node.end() == 0
