"""`itinerary up --plan`: what recovery would do is shown, and nothing is done."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from tests.e2e.cli.program import Program
from tests.hours import HOUR as AN_HOUR
from tests.hours import LAST_HOUR

START = f"{LAST_HOUR - 24 * AN_HOUR:%Y-%m-%dT%H:%M:%SZ}"
"""Hourly from then on, and none of these hours strikes while the test runs."""
APP = f"""
from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1h", start="{START}"), recovery="execute_last")
async def hourly(ctx): ...
"""
STORE = "sqlite:///runs.db"
HOUR = 3_600_000_000


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = list(connection.iterdump())
    connection.close()
    return found


@pytest.mark.spec("R3", "--plan")
def test_the_plan_of_an_outage_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--plan") as program:
        assert program.end() == 0
    assert program.output[0].endswith("nothing to recover")
    app = Itinerary(store=f"sqlite:///{tmp_path}/runs.db")
    app.job("hourly", every("1h", start=START), recovery="execute_last").shell("nothing", ["true"])
    with app.running():
        pass
    with sqlite3.connect(tmp_path / "runs.db") as books:  # it was ten hours ago, and nobody has been there since
        books.execute("UPDATE itinerary_entries SET effective_from = effective_from - ?", (10 * HOUR,))
        books.execute("UPDATE itinerary_jobs SET registered_at = registered_at - ?", (10 * HOUR,))
        books.execute("UPDATE itinerary_sweep SET watermark = watermark - ?", (10 * HOUR,))
    books.close()
    before = dump(tmp_path / "runs.db")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--plan", "--json") as program:
        assert program.end() == 0
    told = json.loads(program.output[0])
    (job,) = told["jobs"]
    assert (job["job"], job["strategy"]) == ("hourly", "execute_last")
    assert (job["runs"], job["missed"], job["late"]) == (1, 9, 0)
    assert told["runs"] == 1
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--plan") as program:
        assert program.end() == 0
    heading, line, summary = program.output
    assert heading.split() == ["job", "strategy", "runs", "late", "missed", "skipped", "from", "to"]
    assert line.split()[:3] == ["hourly", "execute_last", "1"]
    assert summary.endswith(f"1 to run, {told['missed']} missed, 0 skipped")
    assert dump(tmp_path / "runs.db") == before
