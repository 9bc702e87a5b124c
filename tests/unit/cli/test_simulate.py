"""`itinerary simulate`, as people and programs see it (U3, U5)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from itinerary.cli.main import app as command_line

APP = """
from itinerary import Itinerary, cron, every

app = Itinerary(timezone="Europe/Berlin")

@app.job(cron("30 2 * * *"), recovery="execute_last")
async def nightly(): ...

@app.job(every("10m"), overlap="skip", task_timeout="1h")
async def slow(): ...
"""
OPTIONS = (
    ["--from", "2026-03-28T12:00:00Z", "--for", "1d", "--takes", "slow=15m"],
    ["--outage", "2026-03-29T03:00:00Z..2026-03-29T04:00:00Z"],
)


def simulated(directory: Path, *options: str, columns: int = 60) -> tuple[int, str, str]:
    path = directory / "simulated_app.py"
    path.write_text(APP, "utf-8")
    given = [str(path), *(option for some in OPTIONS for option in some), *options]
    ended = CliRunner().invoke(command_line, ["simulate", *given], env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.mark.spec("U5", "the command")
def test_sixty_columns_are_enough(tmp_path: Path) -> None:
    code, output, errors = simulated(tmp_path)
    assert (code, errors) == (0, ""), "no bar where there is no terminal"
    lines = output.splitlines()
    assert max(map(len, lines)) <= 62
    assert lines[0] == "2026-03-28T12:00:00Z to 2026-03-29T12:00:00Z"
    assert "Load" in lines
    assert "Overlaps" in lines
    assert "  nightly: its time is left out, and it runs right after" in lines
    assert "    execute_all            6        0           0" in lines
    assert "\x1b" not in output


def test_programs_get_one_document(tmp_path: Path) -> None:
    code, output, _ = simulated(tmp_path, "--json", "--occurrences")
    found = msgspec.json.decode(output)
    assert code == 0
    assert found["jobs"] == 2
    assert len(found["list"]) == found["occurrences"] == sum(found["states"].values())
    assert found["nights"][0]["zone"] == "Europe/Berlin"
    assert found["outages"][0]["if_all_were"][0] == {
        "strategy": "execute_all",
        "runs": 6,
        "missed": 0,
        "compressed": 0,
        "job": "",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--takes", "slow"], "itinerary: --takes slow: write JOB=DURATION, backup=30s"),
        (["--takes", "fast=1s"], "itinerary: --takes fast=1s: there is no job 'fast'; there are nightly, slow"),
        (["--outage", "now"], "itinerary: --outage now: write FROM..TO"),
        (["--for", "soon"], "itinerary: --for soon: "),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(tmp_path: Path, options: list[str], message: str) -> None:
    code, output, errors = simulated(tmp_path, *options)
    assert (code, output) == (1, "")
    assert errors.startswith(message)
    assert len(errors.splitlines()) == 1
