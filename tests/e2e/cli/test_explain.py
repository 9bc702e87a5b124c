"""A node is killed, nobody is there for a while, another one comes: `itinerary explain` says what that did (U4)."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli.program import Program
from tests.e2e.cli.test_up import STORE, TICKING

AWAY_FOR = 6.0
"""Seconds without a node: so many heartbeats."""


def explained(directory: Path, *words: str) -> str:
    with Program(directory, "explain", *words, "--store", STORE) as program:
        assert program.end() == 0, program.errors
    return "\n".join(program.output)


def told(directory: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained(directory, *words, "--json"))
    return found


@pytest.mark.spec("U4", "on the command line")
def test_after_kill_nine_it_says_what_was_late_and_from_when_to_when_nobody_was_there(tmp_path: Path) -> None:
    source = TICKING.replace("Itinerary()", 'Itinerary(node_heartbeat_interval="1s")')
    (tmp_path / "app.py").write_text(source, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "first") as program:
        program.until(lambda line: "completed" in line)
        program.signal(signal.SIGKILL)
        program.end()
    killed_at = int(time.time())
    time.sleep(AWAY_FOR)  # nothing but real time passes for nobody
    waiting = told(tmp_path, "tick")
    assert (waiting["fate"], waiting["cause"]) == ("waits", "no_node")
    missed = f"tick:{killed_at + 1}"
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--name", "second") as program:
        program.until(lambda _: told(tmp_path, missed)["fate"] != "waits")
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    late = told(tmp_path, missed)
    assert late["fate"] == "ran_late"
    assert late["cause"] in {"no_node", "taken_over"}, "whichever took longer, on this machine"
    assert any("node first was last heard of" in fact["what"] for fact in late["facts"])
    assert any("node second joined" in fact["what"] for fact in late["facts"])
    assert explained(tmp_path, missed).startswith(f"{late['verdict'][:40]}")
