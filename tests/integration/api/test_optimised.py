"""With `python -O` there are no assertions: nothing that has to be done may be done by one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from itinerary import Itinerary, once

app = Itinerary(store="memory:")


@app.job(once("2190-01-01T00:00:00Z"))
async def waits(ctx):
    await asyncio.sleep(0)


@app.job(once("2190-01-01T00:00:00Z"))
def in_a_thread(ctx):
    pass


async def main():
    async with app.running() as node:
        for name in ("waits", "in_a_thread"):
            report = await asyncio.wait_for(node.wait(await app[name].trigger()), 60)
            print(name, report.outcome)


assert False, "there are no assertions"
asyncio.run(main())
"""


@pytest.mark.spec("U1")
def test_a_program_without_assertions_runs_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, "utf-8")
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-O", str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout.split("\n")[-3:]) == (
        0,
        ["waits completed", "in_a_thread completed", ""],
    ), done.stderr
