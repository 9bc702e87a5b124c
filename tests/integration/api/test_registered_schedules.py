"""A schedule class that a plain program registers: stored by one node, and loaded by another one (S7)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from itinerary import Itinerary, custom, schedule

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@schedule("tides")
@dataclass(frozen=True)
class Tides:
    minutes: int

    def next_after(self, t):
        step = timedelta(minutes=self.minutes)
        return FIRST + max((t - FIRST) // step + 1, 0) * step

    def between(self, start, end):
        at = self.next_after(start - timedelta(seconds=1))
        while at < end:
            yield at
            at = self.next_after(at)

    def __str__(self):
        return f"every {self.minutes} minutes"

    def to_json(self):
        return {"minutes": self.minutes}

    @classmethod
    def from_json(cls, data):
        return cls(data["minutes"])


async def main():
    app = Itinerary(store="sqlite:///tides.db")

    @app.job(custom(Tides(37), start="2100-01-01T00:00Z"))
    async def dredge(): ...

    async with app.running():
        print("registered")


if __name__ == "__main__":
    asyncio.run(main())
"""

NODE = """
import asyncio
import logging

from itinerary import Itinerary

logging.basicConfig(level=logging.WARNING, format="%(message)s")


async def main():
    async with Itinerary(store="sqlite:///tides.db").running() as node:
        found = await node.job("dredge")
        print("unknown" if found is None else f"{found.job}, version {found.version}")


asyncio.run(main())
"""


def run(code: str, where: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, to its end."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, cwd=where, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603 - our own


@pytest.mark.spec("S7", "registered")
def test_a_registered_schedule_is_stored_and_loaded_by_a_node_that_imports_the_same_program(tmp_path: Path) -> None:
    (tmp_path / "harbour.py").write_text(PROGRAM, "utf-8")
    started = run("import runpy; runpy.run_path('harbour.py', run_name='__main__')", tmp_path)
    assert started.stdout == "registered\n"
    with_class = run(f"import harbour\n{NODE}", tmp_path)
    assert with_class.stdout == "dredge, version 1\n"
    assert "quarantined" not in with_class.stderr
    without = run(NODE, tmp_path)
    assert without.stdout == "unknown\n"
    assert "job.quarantined job='dredge' reason=\"schedule kind 'tides' is not installed" in without.stderr
    assert "import the program that registers it" in without.stderr
