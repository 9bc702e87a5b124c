"""`itinerary pause`, `backfill` and the others beside a node that runs (L12, R4, S11)."""

from __future__ import annotations

import re
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


BLOCKED = """
import asyncio
from pathlib import Path

from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1h"), overlap="skip")
async def etl():
    print("began", flush=True)
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    if Path("broken").exists():
        raise ValueError("the source is empty")
"""


@pytest.mark.spec("R4", "a run that was asked for waits for its turn")
def test_a_replay_waits_for_the_run_in_progress_and_its_outcome_is_the_exit_code(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    (tmp_path / "app.py").write_text(BLOCKED, "utf-8")
    (tmp_path / "go").touch()
    (tmp_path / "broken").touch()
    with Program(tmp_path, "up", "app.py", "--store", url) as node:
        node.until(lambda line: "next: etl" in line)
        code, output = told(tmp_path, url, "trigger", "etl", "--wait")
        assert code == 1
        assert re.fullmatch(r"etl failed after \d+\.\d s: .*the source is empty", output[-1])
        failed = output[0].removeprefix("triggered etl: ")
        (tmp_path / "go").unlink()
        (tmp_path / "broken").unlink()
        assert told(tmp_path, url, "trigger", "etl")[0] == 0
        node.until(lambda line: line.startswith("began"))
        with Program(tmp_path, "replay", failed, "--wait", "--json", "--store", url) as replay:
            while not any(
                run["kind"] == "replay" and run["state"] != "prerun"
                for run in msgspec.json.decode(told(tmp_path, url, "history", "etl", "--json")[1][-1])["active"]
            ):
                assert replay.process.poll() is None, replay.output
            (tmp_path / "go").touch()
            assert replay.end() == 0
        assert msgspec.json.decode(replay.output[-1])["outcome"] == "completed"
        node.signal(signal.SIGTERM)
        assert node.end() == 0
