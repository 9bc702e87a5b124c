"""`itinerary up` with its dashboard: where it is, and what becomes of an address that cannot be had."""

from __future__ import annotations

import re
import signal
import socket
from http.client import HTTPConnection
from pathlib import Path

import pytest

from itinerary.app.logs import engine_log
from itinerary.errors import NodeError
from itinerary.observe.addresses import ListenAt
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
