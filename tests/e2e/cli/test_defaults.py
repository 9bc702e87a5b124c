"""`[defaults]` on a real node: shown by `plan`, stored by `apply`, taken live, and the same for each reader (X5)."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.program import PATIENCE, Program

JOBS = """
[defaults]
priority = {priority}
retry = {{ max_retries = {retries} }}

[jobs.tick]
schedule = {{ every = "1s" }}
overlap = "allow"

[[jobs.tick.tasks]]
name = "work"
shell = ["true"]
"""


class Place:
    """A directory with a job file on a store, and another directory, whose own settings say something else."""

    def __init__(self, root: Path) -> None:
        self.jobs, self.elsewhere = root / "jobs", root / "elsewhere"
        self.store = f"sqlite:///{root}/runs.db"
        for directory in (self.jobs, self.elsewhere):
            directory.mkdir()
        (self.elsewhere / "itinerary.toml").write_text("[defaults]\npriority = 77\n", "utf-8")
        self.file = self.jobs / "jobs.toml"

    def write(self, *, priority: int, retries: int) -> None:
        self.file.write_text(JOBS.format(priority=priority, retries=retries), "utf-8")

    def said(self, directory: Path, *arguments: str, exit_code: int = 0) -> tuple[str, str]:
        with Program(directory, *arguments, "--store", self.store) as program:
            assert program.end() == exit_code, (program.output, program.errors)
            return "\n".join(program.output), "\n".join(program.errors)

    def read(self, *arguments: str) -> Any:
        """What a command says that is run elsewhere."""
        return json.loads(self.said(self.elsewhere, *arguments, "--json")[0])

    def configuration(self, *arguments: str) -> dict[str, tuple[str, str, str | None]]:
        found = self.read("show", *arguments)["configuration"]
        return {one["key"]: (one["value"], one["source"], one["declared_in"]) for one in found}

    def run_of(self, version: int) -> str:
        """A run that ended under a version, as soon as there is one."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for run in self.read("history", "tick", "--state", "completed")["runs"]:
                if run["version"] == version:
                    return str(run["run"])
        raise AssertionError(f"no run of version {version} has ended")


@pytest.mark.spec("X5", "defaults in the store")
@pytest.mark.spec("R7", "shown before it is applied")
def test_defaults_that_are_applied_while_a_node_runs_are_those_of_its_next_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(priority=3, retries=1)
    source = str(place.file)
    with Program(place.jobs, "up", "jobs.toml", "--store", place.store, "--log", "json") as node:
        node.until(lambda line: '"node.started"' in line)
        first = place.run_of(version=1)
        assert place.configuration("tick")["priority"] == ("3", "settings", source)
        place.write(priority=8, retries=1)
        planned, _ = place.said(place.jobs, "plan", "jobs.toml")
        assert "defaults: priority: 3 (defaults) -> 8 (defaults), in 1 job" in planned
        assert place.configuration("tick")["priority"] == ("3", "settings", source), "a plan changes nothing"
        done, _ = place.said(place.jobs, "apply", "jobs.toml")
        assert "applied: 1 changed" in done
        second = place.run_of(version=2)
        for what in ("tick", second):
            assert place.configuration(what)["priority"] == ("8", "settings", source)
        assert place.configuration(first)["priority"] == ("3", "settings", source), "it keeps what it began with"
        assert place.read("show", "tick")["changes"][0]["reason"] == "applied: the defaults of all jobs changed"
        place.write(priority=8, retries=-1)
        _, refused = place.said(place.jobs, "apply", "jobs.toml", exit_code=1)
        assert "jobs.toml:4: defaults.retry.max_retries: -1 is out of range 0-1000" in refused
        assert place.read("show", "tick")["seen"]["version"] == 2, "nothing was stored"
        node.signal(signal.SIGTERM)
        assert node.end() == 0
