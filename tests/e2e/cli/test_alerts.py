"""Alerts of real nodes: a receiver is tried, hears of a failure and of a killed node, and is then away (U12)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.cli.program import PATIENCE, Program
from tests.integration.observe.test_webhooks import serving, until

STORE = "sqlite:///runs.db"
JOBS = """
[jobs.backup]
schedule = "0 3 1 1 *"

[[jobs.backup.tasks]]
name = "dump"
shell = ["sh", "-c", "echo connecting; echo the disk is full >&2; exit 3"]
"""
NEVER_REACHED = "alerts do not reach receiver 1 of alert_urls: 127.0.0.1 cannot be reached"


def told(directory: Path, *words: str) -> tuple[int, str]:
    with Program(directory, *words) as program:
        code = program.end()
    return code, " ".join(" ".join([*program.output, *program.errors]).split())


@pytest.mark.spec("U12", "whether alerts arrive")
@pytest.mark.spec("U12", "the last lines of output")
@pytest.mark.spec("U12", "a dead node")
def test_a_failure_and_a_killed_node_reach_a_receiver_that_was_tried_before(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(JOBS, "utf-8")
    with serving() as server:
        settings = f'store = "{STORE}"\nalert_urls = ["{server.url}"]\nallow_hosts = ["{server.at}"]\n'
        (tmp_path / "itinerary.toml").write_text(settings + 'node_heartbeat_interval = "1s"\n', "utf-8")
        assert told(tmp_path, "alert", "--test") == (0, "receiver 1 of alert_urls has the test alert")
        assert until(server, "test")["why"].startswith("this is a test")
        code, output = told(tmp_path, "check", "jobs.toml")
        assert (code, "alert_urls" in output) == (0, False), output
        with Program(tmp_path, "up", "jobs.toml", "--name", "first") as first:
            first.until(lambda line: "next: " in line)
            assert told(tmp_path, "trigger", "backup", "--wait")[0] == 1
            failed = until(server, "failed", 2 * PATIENCE)
            assert (failed["job"], failed["output"].splitlines()) == ("backup", ["connecting", "the disk is full"])
            with Program(tmp_path, "up", "jobs.toml", "--name", "second") as second:
                second.until(lambda line: "next: " in line)
                first.signal(signal.SIGKILL)
                first.end()
                died = until(server, "died", 2 * PATIENCE)
                assert died["why"].startswith("node first died: it was last heard of at ")
                second.signal(signal.SIGTERM)
                assert second.end() == 0
    code, output = told(tmp_path, "check", "jobs.toml")
    assert (code, NEVER_REACHED in output) == (0, True), output
    code, output = told(tmp_path, "doctor")
    assert (code, f"alerts: {NEVER_REACHED}" in output) == (1, True), output
