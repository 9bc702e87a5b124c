"""`itinerary pause`, `backfill` and the others beside a node that runs (L12, R4, S11)."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from tests.e2e.cli.program import Program
from tests.hours import HOUR, LAST_HOUR

APP = f"""
from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1s"))
async def tick():
    pass

@app.job(every("1h", start="{LAST_HOUR - 24 * HOUR:%Y-%m-%dT%H:%M:%SZ}"))
async def hourly(ctx):
    print("ran", ctx.scheduled_at.isoformat(), flush=True)
"""


def told(directory: Path, url: str, *words: str) -> tuple[int, list[str]]:
    with Program(directory, *words, "--store", url) as program:
        return program.end(), program.output


@pytest.mark.spec("L12", "pause from another process")
@pytest.mark.spec("R4", "backfill")
def test_what_is_asked_from_another_process_reaches_the_node(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    (tmp_path / "app.py").write_text(APP, "utf-8")
    end = LAST_HOUR - HOUR
    with Program(tmp_path, "up", "app.py", "--store", url) as node:
        node.until(lambda line: "tick" in line and "completed" in line)
        assert told(tmp_path, url, "pause", "tick", "--reason", "migration") == (0, ["paused tick"])
        node.until(lambda line: "tick" in line and "skipped" in line and "migration" in line)
        assert told(tmp_path, url, "resume", "tick") == (0, ["resumed tick"])
        node.until(lambda line: "tick" in line and "completed" in line)
        start = (end - 3 * HOUR).isoformat()
        code, output = told(tmp_path, url, "backfill", "hourly", "--from", start, "--to", end.isoformat(), "--json")
        found = msgspec.json.decode(output[-1])
        assert (code, found["created"], found["ended"]) == (0, 3, {"completed": 3})
        assert [line for line in node.output if line.startswith("ran")] == [
            f"ran {(end - n * HOUR).isoformat()}" for n in (3, 2, 1)
        ]
        node.signal(signal.SIGTERM)
        assert node.end() == 0
    assert told(tmp_path, url, "audit")[0] == 0
