"""`itinerary status` and `doctor` after a bad hour: a killed node with runs in hand, and a job that fails."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import msgspec
import pytest

from tests.e2e.cli.program import Program

STORE = "sqlite:///runs.db"
APP = """
import time

from itinerary import Itinerary, cron

app = Itinerary(name="berlin-1")

@app.job(cron("0 0 1 1 *"))
def broken() -> None:
    raise ValueError("the source is empty")

@app.job(cron("0 0 1 1 *"))
def slow() -> None:
    print("began", flush=True)
    time.sleep(600)
"""


def told(directory: Path, *words: str) -> tuple[int, str]:
    with Program(directory, *words, "--store", STORE) as program:
        code = program.end()
    return code, "\n".join([*program.output, *program.errors])


@pytest.mark.spec("U3", "status")
@pytest.mark.spec("U3", "doctor looks at the last hour")
def test_a_killed_node_and_a_failing_job_are_wrong_at_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as node:
        node.until(lambda line: "next: " in line)
        code, output = told(tmp_path, "status")
        assert (code, output.splitlines()[-1]) == (0, "everything is fine")
        assert "nodes      1: berlin-1" in output
        assert "no node runs" not in told(tmp_path, "jobs")[1]
        assert told(tmp_path, "trigger", "broken", "--wait")[0] == 1
        assert told(tmp_path, "trigger", "slow")[0] == 0
        node.until(lambda line: line.startswith("began"))
        node.signal(signal.SIGKILL)
        node.end()
    code, output = told(tmp_path, "doctor")
    assert code == 1
    assert re.search(r"wrong +nodes: node berlin-1 \(number 1\) died: its process is gone, and 1 run of it had", output)
    assert "wrong     failures: failed in the last hour, and has not succeeded since: broken (1)" in output
    code, output = told(tmp_path, "status")
    assert code == 1
    assert "nodes      0\n" in output
    assert "last hour  1 failed" in output
    assert re.fullmatch(r"\d+ errors, \d+ warnings?", output.splitlines()[-1])
    assert "no node runs on this store, so no job runs; start one: `itinerary up APP`" in told(tmp_path, "jobs")[1]
    (seen,) = msgspec.json.decode(told(tmp_path, "nodes", "--json")[1])
    assert (seen["node"], seen["state"], seen["runs"]) == ("berlin-1", "died", 1)
