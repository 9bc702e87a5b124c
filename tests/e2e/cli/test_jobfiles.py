"""Job files in processes of their own: a node that runs one, and a change that reaches it while it runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.cli.program import Program

STORE = "sqlite:///runs.db"
TICKING = """
store = "sqlite:///runs.db"
allow_modules = ["reports"]

[jobs.tick]
schedule = { every = "1s" }

[[jobs.tick.tasks]]
name = "say"
shell = ["echo", "tick"]

[[jobs.tick.tasks]]
name = "send"
python = "reports:send"

[[jobs.tick.tasks]]
name = "crunch"
python = "reports:crunch"
executor = "process"
"""
REPORTS = """
async def send(ctx):
    ctx.log.info("sent", number=ctx.attempt)

def crunch():
    return 42
"""
LATER = '[jobs.later]\nschedule = { every = "1s" }\ntasks = [{ name = "t", shell = ["true"] }]\n'
EXAMPLE = Path(__file__).parents[3] / "examples" / "jobs.toml"


@pytest.mark.spec("U2", "a node runs a job file")
@pytest.mark.spec("Q3", "functions of a module that the operator allows")
def test_a_node_runs_the_jobs_of_a_file_and_functions_of_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "jobs.toml").write_text(TICKING, "utf-8")
    (folder / "reports.py").write_text(REPORTS, "utf-8")
    with Program(tmp_path, "up", "jobs/jobs.toml", "--name", "first") as program:
        program.until(lambda line: "  tick " in line and "completed" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert program.output[0].startswith("Itinerary node first on sqlite:///")
    assert program.output[1].startswith("1 job; next: tick ")
    assert any("sent" in line and "number=1" in line for line in program.errors)
    assert (tmp_path / "runs.db").exists()


@pytest.mark.spec("L12", "apply")
def test_what_is_applied_reaches_a_node_that_runs(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(TICKING.partition('[[jobs.tick.tasks]]\nname = "send"')[0], "utf-8")
    (tmp_path / "later.toml").write_text(LATER, "utf-8")
    with Program(tmp_path, "up", "jobs.toml") as node:
        node.until(lambda line: "  tick " in line and "completed" in line)
        with Program(tmp_path, "apply", "later.toml", "--store", STORE) as applying:
            assert applying.end() == 0
        assert applying.output[0] == "later: new, Every 1s"
        assert applying.output[-2:] == ["applied: 1 new", "not in the file, and left as they are: tick"]
        node.until(lambda line: "  later " in line and "completed" in line)
        node.signal(signal.SIGTERM)
        assert node.end() == 0


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_job_that_is_deleted_from_the_file_or_renamed_stops_at_the_next_start(tmp_path: Path) -> None:
    store = f'store = "{STORE}"\n'
    other = LATER.replace("later", "other")
    (tmp_path / "jobs.toml").write_text(store + LATER + other, "utf-8")
    with Program(tmp_path, "up", "jobs.toml") as first:
        first.until(lambda line: "  other " in line and "completed" in line)
        first.signal(signal.SIGTERM)
        assert first.end() == 0
    (tmp_path / "jobs.toml").write_text(store + LATER.replace("later", "renamed"), "utf-8")
    with Program(tmp_path, "up", "jobs.toml") as second:
        second.until(lambda line: "  renamed " in line and "completed" in line)
        second.signal(signal.SIGTERM)
        assert second.end() == 0
    file = tmp_path / "jobs.toml"
    said = " ".join(second.output)
    assert f"no longer in {file}, stopped: later, other (--prune removes them" in said
    with Program(tmp_path, "explain", "other", "--store", STORE) as explain:
        assert explain.end() == 0
    assert f"no longer declared in {file}" in " ".join(" ".join(explain.output).split())
    with Program(tmp_path, "up", "jobs.toml", "--prune", "--quiet") as third:
        third.until(lambda line: "removed" in line)
        third.signal(signal.SIGTERM)
        assert third.end() == 0
    assert " ".join(third.output) == f"no longer in {file}, removed: later, other (their history stays)"


def test_the_example_runs(tmp_path: Path) -> None:
    with Program(tmp_path, "check", str(EXAMPLE)) as check:
        assert check.end() == 0
    assert check.errors == []
    assert check.output[1:] == [
        "  heartbeat: Every 2s; beat",
        "  backup: Every 10s; dump, compress, cleanup",
        "  report: At 09:00, Monday to Friday, Europe/Berlin, moved to the next business day on holidays; send",
        "  invoices: Every month from 2026-01-31T09:00:00, Europe/Berlin; write",
    ]
    with Program(tmp_path, "up", str(EXAMPLE), "--store", STORE) as program:
        program.until(lambda line: "backup" in line and "completed" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    said, _, upcoming = program.output[1].partition("; next: ")
    assert said == "4 jobs"
    assert {each.partition(" ")[0] for each in upcoming.split(", ")} == {"backup", "heartbeat", "invoices", "report"}


@pytest.mark.spec("U2", "errors name file, line and key")
def test_a_file_with_mistakes_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(TICKING.replace('["reports"]', '["os"]').replace("1s", "soon"), "utf-8")
    with Program(tmp_path, "up", "jobs.toml") as program:
        assert program.end() == 1
    assert [line.partition(": ")[0] for line in program.errors] == ["itinerary", "jobs.toml:14", "jobs.toml:18"]
    assert program.errors[0].startswith(
        "itinerary: jobs.toml:6: jobs.tick.schedule.every: duration 'soon' cannot be read"
    )
    assert not (tmp_path / "runs.db").exists()
