"""A node that cannot keep up says so where people look: in its log, to probes, on the dashboard, and to doctor."""

from __future__ import annotations

import html
import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.cli.program import PATIENCE, Program
from tests.e2e.cli.test_health import get
from tests.e2e.cli.test_web import asked

STORE: Final = "sqlite:///runs.db"
APP: Final = """
import asyncio
from itinerary import Itinerary, every

app = Itinerary(name="berlin-1", max_concurrent_jobs=1, node_heartbeat_interval="1s")

@app.job(every("1s"), on_shutdown="cancel", priority=9)
async def hog():
    await asyncio.sleep(3600)

@app.job(every("1s"), overlap="allow")
async def tick():
    pass
"""
SENTENCE: Final = re.compile(r"\d+ s behind since \d{4}-[-\dT:]+Z: .* \(bottleneck: (slots|cpu)\), and .* not started")
"""How far, since when, and why. On a machine without a free core the bottleneck is truly the CPU."""


def until(look: Callable[[], str], is_so: Callable[[str], bool]) -> str:
    """Look at something again and again until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not is_so(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)  # another process: there is nothing to wait on
    return seen


@pytest.mark.spec("N7")
@pytest.mark.spec("U8", "overload says so")
def test_a_node_without_slots_says_how_far_since_when_and_why_in_all_places(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    options = ("--store", STORE, "--log", "json", "--health", "127.0.0.1:0")
    with Program(tmp_path, "up", "app.py", *options, web="127.0.0.1:0") as node:
        greeting = [node.until(lambda line: " on http://" in line) for _ in range(2)]
        health, web = (line.strip().rpartition("http://")[2] for line in greeting)
        said = json.loads(node.until(lambda line: '"node.behind"' in line))
        assert said["level"] == "warning"
        assert said["bottleneck"] in ("slots", "cpu")
        assert said["by_seconds"] >= 5
        assert said["waiting"] >= 1
        assert re.fullmatch(r"\d{4}-[-\dT:]+Z", said["since"])
        status, text = get(health, "/health/progress")
        assert status == 503
        assert SENTENCE.search(text), text
        assert get(health, "/health/live")[0] == 200, "a restart would not help"
        page = until(lambda: html.unescape(asked(web, "/")[1]), lambda page: "1 node is behind" in page)
        assert SENTENCE.search(page), page

        def doctor() -> str:
            with Program(tmp_path, "doctor", "--store", STORE) as program:
                assert program.end() in (0, 1)
            return " ".join(program.output)

        words = until(doctor, lambda words: "node berlin-1 is" in words)
        assert SENTENCE.search(" ".join(words.split())), words
        node.signal(signal.SIGTERM)
        assert node.end() == 0
