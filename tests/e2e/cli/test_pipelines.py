"""A pipeline of two jobs on a real node: a replay of the first repairs the second; a backfill fills both (O3, R4)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.e2e.cli.program import Program
from tests.hours import HOUR, LAST_HOUR

START = LAST_HOUR - 24 * HOUR
APP = f"""
from pathlib import Path

from itinerary import Itinerary, every

app = Itinerary()
hourly = every("1h", start="{START:%Y-%m-%dT%H:%M:%SZ}")

@app.job(hourly)
def extract() -> None:
    if Path("broken").exists():
        raise ValueError("the source is empty")

load = app.job("load", hourly)
load.requires(job="extract", every="1s", deadline="1h")

@load.task
def store() -> None: ...
"""


REFUSED = (
    "requires job extract, which is not so: extract:{run} is failed, and is not waited for; "
    "replay extract:{run}, and then this one"
)


class Place:
    """A directory with the pipeline on a store."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.store = directory, f"sqlite:///{directory}/runs.db"
        (directory / "app.py").write_text(APP, "utf-8")

    def said(self, *words: str) -> tuple[int, str]:
        with Program(self.directory, *words, "--store", self.store) as program:
            code = program.end()
        return code, "\n".join(program.output)

    def backfill(self, job: str, hours: int) -> dict[str, int]:
        """Run the last hours of a job. Returns how many runs ended in each state."""
        start, end = LAST_HOUR - hours * HOUR, LAST_HOUR
        code, output = self.said("backfill", job, "--from", start.isoformat(), "--to", end.isoformat(), "--json")
        assert code in {0, 1}, output
        ended: dict[str, int] = msgspec.json.decode(output)["ended"]
        return ended

    def runs(self, job: str) -> list[dict[str, Any]]:
        """The runs of a job that have not ended, and after them those that have."""
        code, output = self.said("history", job, "--json")
        assert code == 0, output
        found = msgspec.json.decode(output)
        return [*found["active"], *found["runs"]]

    def trail(self, number: int) -> list[str]:
        """The states of a run, one for each row that was written."""
        code, output = self.said("show", str(number), "--json")
        assert code == 0, output
        return [step["after"] for step in msgspec.json.decode(output)["trail"]]


@pytest.mark.spec("O3", "the newest outcome counts")
def test_a_replay_of_a_failed_upstream_lets_its_downstream_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (tmp_path / "broken").touch()
    with Program(tmp_path, "up", "app.py", "--store", place.store) as node:
        node.until(lambda line: "next: " in line)
        assert place.backfill("extract", 1) == {"failed": 1}
        assert place.backfill("load", 1) == {"failed": 1}
        run = f"{int((LAST_HOUR - HOUR).timestamp())}"
        code, output = place.said("history", "load")
        assert (code, REFUSED.format(run=run) in " ".join(output.split())) == (0, True), output
        (tmp_path / "broken").unlink()
        assert place.said("replay", f"extract:{run}", "--wait")[0] == 0
        assert place.said("replay", f"load:{run}", "--wait")[0] == 0
        node.signal(signal.SIGTERM)
        assert node.end() == 0


@pytest.mark.spec("O3", "the newest outcome counts")
def test_a_backfill_of_a_whole_pipeline_completes_every_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with Program(tmp_path, "up", "app.py", "--store", place.store) as node:
        node.until(lambda line: "next: " in line)
        assert place.backfill("extract", 12) == {"completed": 12}
        assert place.backfill("load", 12) == {"completed": 12}
        node.signal(signal.SIGTERM)
        assert node.end() == 0


@pytest.mark.spec("O3", "a wait is written when it begins and when it ends")
def test_a_run_that_waits_for_its_upstream_writes_one_row_for_the_wait(tmp_path: Path) -> None:
    place = Place(tmp_path)
    start, end = LAST_HOUR - HOUR, LAST_HOUR
    words = ("backfill", "load", "--from", start.isoformat(), "--to", end.isoformat(), "--store", place.store)
    with Program(tmp_path, "up", "app.py", "--store", place.store) as node:
        node.until(lambda line: "next: " in line)
        with Program(tmp_path, *words) as waits:
            while not any(run["state"] == "condition_pending" for run in place.runs("load")):
                assert waits.process.poll() is None, waits.output
            assert place.backfill("extract", 1) == {"completed": 1}
            assert waits.end() == 0
        (run,) = place.runs("load")
        assert run["state"] == "completed"
        assert place.trail(run["number"]).count("condition_pending") == 2, "before the first look, and for the wait"
        node.signal(signal.SIGTERM)
        assert node.end() == 0
