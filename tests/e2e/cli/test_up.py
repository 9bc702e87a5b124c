"""`itinerary up`: a node in a process of its own."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest

from itinerary.model.queries import HistoryQuery, JobsQuery, NodesQuery
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores import open_store
from tests.e2e.cli.program import Program

TICKING = """
from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1s"))
async def tick(ctx):
    ctx.log.info("ticking", attempt=ctx.attempt)
"""
STUBBORN = """
import threading
from itinerary import Itinerary, every

app = Itinerary(shutdown_grace_period="{grace}", kill_grace="1h")

@app.job(every("1s"))
def stubborn(ctx):
    ctx.log.info("it has begun")
    threading.Event().wait(600)
"""
STORE = "sqlite:///runs.db"


@pytest.mark.spec("U3", "up")
@pytest.mark.spec("R9", "SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_shows_what_happens_and_ends_gracefully(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "app.py").write_text(TICKING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "first") as program:
        line = program.until(lambda line: "completed" in line)
        program.signal(number)
        assert program.end() == 0
    assert re.match(r"\d\d:\d\d:\d\d  tick +completed +(on time|[\d.]+ s late) +\d+ ms", line)
    assert re.match(r"Itinerary node first on sqlite:///.*runs\.db", program.output[0])
    assert program.output[1].startswith("1 job; next: tick ")
    assert program.output[2] == "Ctrl-C: stop after running tasks finish (20 s); twice: stop now"
    assert any("ticking" in line and "attempt=1" in line for line in program.errors)

    async def told() -> None:
        async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
            (job,) = await store.read(JobsQuery())
            rows = (await store.read(HistoryQuery(job.number))).rows
            assert OccurrenceState.COMPLETED in {row.status for row in rows}
            assert {row.status for row in rows} <= FINAL
            assert [(node.name, node.left_at is not None) for node in await store.read(NodesQuery())] == [
                ("first", True)
            ]

    asyncio.run(told())


FINISHING = """
import asyncio
from itinerary import Itinerary, every

app = Itinerary(shutdown_grace_period="90s")

@app.job(every("1h", start="2026-01-01T00:00:00Z"))
async def nightly(ctx):
    ctx.log.info("it has begun")
    await asyncio.sleep(3)
    ctx.log.info("it has finished")
"""


@pytest.mark.spec("R9", "finish")
def test_what_runs_finishes_before_the_node_ends_as_its_greeting_says(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FINISHING, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as program:
        program.until(lambda line: "twice: stop now" in line)
        with Program(tmp_path, "trigger", "nightly", "--store", STORE) as trigger:
            assert trigger.end() == 0, trigger.errors
        program.until(lambda line: "it has begun" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert "Ctrl-C: stop after running tasks finish (1 min 20 s); twice: stop now" in program.output
    assert any("it has finished" in line for line in program.errors)


@pytest.mark.spec("R9", "a second signal")
def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUBBORN.format(grace="1h"), "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--log", "json") as program:
        program.until(lambda line: "it has begun" in line)
        program.signal(signal.SIGTERM)
        program.until(lambda line: "node.shutting_down" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 128 + signal.SIGTERM


@pytest.mark.spec("R9", "not everything ended")
def test_the_exit_code_says_that_something_still_ran(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(STUBBORN.format(grace="100ms"), "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as program:
        program.until(lambda line: "it has begun" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 3


@pytest.mark.spec("X10", "functions of a file in a worker process")
def test_a_function_of_a_file_runs_in_a_worker_process(tmp_path: Path) -> None:
    source = TICKING + "\n@app.job(every('1s'), executor='process')\ndef crunch():\n    return 1\n"
    (tmp_path / "app.py").write_text(source, "utf-8")
    with Program(tmp_path, "up", "app.py:app", "--store", STORE) as program:
        program.until(lambda line: "  crunch " in line and "completed" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0


def test_the_example_app_runs(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "app.py"
    with Program(tmp_path, "up", str(example), "--store", STORE) as program:
        program.until(lambda line: "heartbeat" in line and "completed" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert program.output[1].startswith("11 jobs; next: ")


def test_the_example_of_trouble_runs(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "trouble.py"
    with Program(tmp_path, "up", str(example), "--store", STORE) as program:
        program.until(lambda line: line.startswith("2 jobs; next: "))
        program.signal(signal.SIGTERM)
        assert program.end() == 0


def test_a_module_is_found_where_the_command_is_typed_and_quiet_shows_nothing(tmp_path: Path) -> None:
    package = tmp_path / "company"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "jobs.py").write_text(TICKING, "utf-8")
    with Program(tmp_path, "up", "company.jobs:app", "--store", STORE, "--quiet") as program:
        program.until(lambda line: "ticking" in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
        assert program.output == []


@pytest.mark.spec("U3", "errors")
@pytest.mark.parametrize(
    ("source", "arguments", "told"),
    [
        (None, ["missing.py"], "itinerary: missing.py: there is no such file"),
        ("def", ["app.py"], r"itinerary: .*app\.py:1: invalid syntax"),
        ("import nowhere", ["app.py"], r"itinerary: app\.py:1: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1", ["app.py"], r"itinerary: app\.py: there is no app in it; write app = Itinerary\(\)"),
        ("from itinerary import Itinerary\na = Itinerary()\nb = Itinerary()", ["app.py"], "say which: app.py:a"),
        ("from itinerary import Itinerary\na = Itinerary()", ["app.py:b"], "app.py: there is no b in it"),
        ("x = 1", ["app.py:x"], "app.py: x is a int, not an Itinerary"),
        (TICKING.replace("1s", "1 parsec"), ["app.py"], r"itinerary: app\.py:6: DurationError: "),
        (TICKING.replace("every(", "every(overlap='x', *"), ["app.py"], r"itinerary: app\.py:6: "),
        (TICKING, ["app.py", "--store", "nowhere:"], "itinerary: store 'nowhere:': unknown kind 'nowhere'"),
        (TICKING, ["nobody:app"], "itinerary: nobody: there is no module nobody"),
        (TICKING, ["no-module"], "this is neither a file that ends in .py nor a module"),
    ],
)
def test_a_mistake_is_told_in_a_line_with_its_place(
    tmp_path: Path, source: str | None, arguments: list[str], told: str
) -> None:
    if source is not None:
        (tmp_path / "app.py").write_text(source, "utf-8")
    with Program(tmp_path, "up", *arguments) as program:
        assert program.end() == 1
    assert re.match(told, program.errors[0]) or told in program.errors[0]
    assert not any("Traceback" in line for line in program.errors)


def test_the_version_and_the_help_are_printed(tmp_path: Path) -> None:
    with Program(tmp_path, "--version") as program:
        assert program.end() == 0
        assert program.output[0].startswith("itinerary ")
    with Program(tmp_path, "--help") as program:
        assert program.end() == 0
        assert any(line.strip().startswith("audit") for line in program.output)


@pytest.mark.spec("U6", "the command")
def test_audit_reads_a_store_and_says_what_it_found(tmp_path: Path) -> None:
    with Program(tmp_path, "migrate", "--store", STORE) as made:
        assert made.end() == 0
    with Program(
        tmp_path, "audit", "--from", "2020-01-01T00:00Z", "--to", "2020-01-02T00:00Z", "--store", STORE, "--json"
    ) as program:
        assert program.end() == 0
        assert '"expected":0' in program.output[0]
    with Program(tmp_path, "audit", "--from", "2020-13-01", "--to", "2020-01-02T00:00Z", "--store", STORE) as program:
        assert program.end() == 1
        assert "2020-13-01: this is not a time" in program.errors[0]
    with Program(
        tmp_path, "audit", "--from", "2020-01-01T00:00Z", "--to", "2190-01-01T00:00Z", "--store", STORE
    ) as late:
        assert late.end() == 4
        assert any("not looked at: " in line for line in late.output)
