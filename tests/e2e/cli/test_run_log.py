"""`itinerary up` tells of every end of a run: as JSON, in a quiet terminal, and in a line for people."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.program import Program

STORE = "sqlite:///runs.db"
FAILURES = 32
FAILING = f"""
from itinerary import Itinerary, cron

app = Itinerary()

def fails():
    raise RuntimeError("no disk")

def works():
    pass

for number in range({FAILURES}):
    app.job(f"bad-{{number}}", cron("@reboot")).task(fails)
app.job("good", cron("@reboot")).task(works)
"""


def failed(lines: list[str]) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, lines) if event["event"] == "run.failed"]


@pytest.mark.parametrize("options", [("-v", "-q"), ("-v",), ()])
def test_as_json_every_failure_is_a_warning_with_its_error_and_every_success_is_told(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "app.py").write_text(FAILING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "first", "--log", "json", *options) as program:
        for _ in range(FAILURES + 1):
            program.until(lambda line: '"run.failed"' in line or '"run.completed"' in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    events = failed(program.errors)
    assert len(events) == FAILURES
    assert {event["job"] for event in events} == {f"bad-{number}" for number in range(FAILURES)}
    for event in events:
        assert (event["level"], event["node"], event["attempt"]) == ("warning", "first", 1)
        assert event["run"].startswith(f"{event['job']}:")
        assert "no disk" in event["error"]
        assert event["duration"] >= 0
        assert event["delay"] >= 0
    (good,) = [event for event in map(json.loads, program.errors) if event["event"] == "run.completed"]
    assert (good["job"], good["level"]) == ("good", "info")


@pytest.mark.parametrize("options", [(), ("-v",)])
def test_quiet_shows_failures_and_nothing_else(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "app.py").write_text(FAILING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "-q", *options) as program:
        for _ in range(FAILURES):
            program.until(lambda line: "run.failed" in line and "no disk" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert program.output == []
    assert sum("run.failed" in line for line in program.errors) == FAILURES
    assert sum("run.completed" in line for line in program.errors) == len(options)


def test_for_people_each_end_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FAILING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as program:
        for _ in range(FAILURES + 1):
            program.until(lambda line: " failed " in line or " completed " in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert sum(" failed " in line and "no disk" in line for line in program.output) == FAILURES
    assert not any("run.failed" in line for line in program.errors)
