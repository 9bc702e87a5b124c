"""What people type beside a real node: times without an offset, numbers of a list, words that are no command (U3)."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.e2e.cli.program import Program

STORE = "sqlite:///runs.db"
APP = """
from itinerary import Itinerary, cron

app = Itinerary()

@app.job(cron("0 3 * * *", tz="Asia/Tokyo"), overlap="skip")
def report() -> None:
    pass
"""


def told(directory: Path, *words: str) -> tuple[int, str]:
    with Program(directory, *words, "--store", STORE) as program:
        code = program.end()
    return code, " ".join(" ".join([*program.output, *program.errors]).split())


@pytest.mark.spec("U3", "runs by their number")
@pytest.mark.spec("U3", "times as people type them")
def test_a_run_is_shown_and_replayed_by_the_number_of_the_list_and_times_are_those_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE) as node:
        node.until(lambda line: "next: " in line)
        assert told(tmp_path, "trigger", "report", "--wait")[0] == 0
        code, listed = told(tmp_path, "history", "report")
        (number,) = re.findall(r"(\d+) \d{4}-\d\d-\d\d \d\d:\d\d:\d\d completed", listed)
        code, shown = told(tmp_path, "show", number)
        assert (code, f"number {number}" in shown) == (0, True), (listed, shown)
        code, replayed = told(tmp_path, "replay", number, "--wait")
        assert (code, "report completed after" in replayed) == (0, True), replayed
        code, skipped = told(tmp_path, "skip", "report", "tomorrow 03:00")
        assert (code, "T18:00:00Z" in skipped) == (0, True), skipped
        code, explained = told(tmp_path, "explain", "report", "tomorrow 03:00")
        assert (code, "03:00:00 Asia/Tokyo" in explained) == (0, True), explained
        window = ("--from", "yesterday", "--to", "today", "--dry-run")
        code, warned = told(tmp_path, "backfill", "report", *window, "--max-active", "4")
        no_effect = "max_active 4 has no effect: job 'report' lets no two runs overlap"
        assert (code, no_effect in warned) == (0, True), warned
        node.signal(signal.SIGTERM)
        assert node.end() == 0
    with Program(tmp_path, "run", "app.py") as unknown:
        assert unknown.end() == 2
    assert unknown.errors[-1] == "Error: No such command 'run'. Did you mean 'up' or 'trigger'?"
