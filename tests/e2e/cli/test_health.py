"""`itinerary up --health`: probes and metrics of a node in a process of its own, and when that process is stopped."""

from __future__ import annotations

import json
import re
import signal
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.e2e.cli.program import Program
from tests.e2e.cli.test_up import STORE, TICKING


def get(at: str, path: str) -> tuple[int, str]:
    host, _, port = at.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.spec("U8", "command line")
@pytest.mark.spec("U7", "command line")
def test_a_node_says_where_it_is_asked_and_answers_there(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--health", "127.0.0.1:0") as program:
        program.until(lambda line: "completed" in line)
        (at,) = [found[1] for line in program.output if (found := re.match(r"probes and metrics on http://(.*)", line))]
        for probe in ("live", "ready", "progress"):
            status, text = get(at, f"/health/{probe}")
            assert (status, json.loads(text)["status"]) == (200, "ok")
        status, text = get(at, "/metrics")
        assert status == 200
        assert 'scheduler_start_lateness_seconds_bucket{le="+Inf"}' in text
        program.signal(signal.SIGTERM)
        assert program.end() == 0


@pytest.mark.spec("U8", "loopback")
def test_a_node_refuses_to_be_asked_from_elsewhere_without_a_token(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(TICKING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--health", "0.0.0.0:0") as program:
        assert program.end() == 1
    assert "needs a token; set health_token to NAME" in program.errors[-1]
