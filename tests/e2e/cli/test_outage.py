"""A node is killed after it has claimed ahead, and stays away: what it claimed is recovered with the rest (R1)."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.cli.program import PATIENCE, Program

STORE = "sqlite:///runs.db"
APP = """
from itinerary import Itinerary, every
from pathlib import Path

app = Itinerary(pre_schedule_interval="6s", grace_period="1s")

def note(ctx):
    with Path(f"{ctx.job}.txt").open("a") as runs:
        runs.write(f"{ctx.scheduled_at.timestamp():.0f} {len(ctx.window)} {ctx.is_recovery}\\n")

@app.job(every("1s"), recovery="execute_all")
def each(ctx):
    note(ctx)

@app.job(every("1s"), recovery="compressed")
def packed(ctx):
    note(ctx)
"""
JOBS = ("each", "packed")
ENOUGH = 3
"""So many claimed instants of each job."""
AWAY = 5
"""Seconds after the last claimed instant: longer than the grace period and `takeover_after` together."""
MORE = 3
"""So many instants after the outage are enough to see that both jobs go on."""


class Ran(NamedTuple):
    """One line that a task wrote."""

    instant: int
    instants: int
    """How many it answers for."""
    is_recovery: bool


class Story:
    """The directory of a node, which is started twice."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "app.py").write_text(APP, "utf-8")

    def up(self, *options: str) -> Program:
        return Program(self.directory, "up", "app.py", "--store", STORE, *options)

    def ran(self, job: str) -> list[Ran]:
        path = self.directory / f"{job}.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Ran(int(at), int(count), said == "True") for at, count, said in (line.split() for line in lines)]

    def claimed(self, job: str) -> list[int]:
        """The instants of a job that are claimed and not started, in seconds."""
        with sqlite3.connect(self.directory / "runs.db") as books:
            found = books.execute(
                "SELECT instant FROM itinerary_occurrences o JOIN itinerary_jobs j ON j.number = o.job"
                " WHERE j.name = ? AND o.status = 'prerun' ORDER BY instant",
                (job,),
            ).fetchall()
        books.close()
        return [instant // 1_000_000 for (instant,) in found]


def wait_for(holds: Callable[[], bool], what: str, program: Program | None = None) -> None:
    deadline = time.monotonic() + 2 * PATIENCE
    while not holds():
        said = [] if program is None else [*program.output, *program.errors]
        assert time.monotonic() < deadline, f"{what}: it took too long; {said}"
        assert program is None or program.process.poll() is None, f"{what}: the node has ended; {said}"
        time.sleep(0.05)


@pytest.mark.spec("R1", "claimed before an outage")
@pytest.mark.spec("R3", "--plan")
def test_what_was_claimed_before_a_kill_is_planned_and_recovered_in_order_with_what_has_no_row(tmp_path: Path) -> None:
    story = Story(tmp_path)
    with story.up() as first:
        wait_for(lambda: all(story.ran(job) for job in JOBS), "both jobs run", first)
        wait_for(lambda: min(len(story.claimed(job)) for job in JOBS) > ENOUGH, "some are claimed ahead", first)
        first.process.kill()
    claimed = {job: story.claimed(job) for job in JOBS}
    before = {job: len(story.ran(job)) for job in claimed}
    assert min(len(instants) for instants in claimed.values()) >= ENOUGH
    until = max(max(instants) for instants in claimed.values()) + AWAY
    wait_for(lambda: time.time() > until, "the claimed instants are older than the grace period")

    with story.up("--plan", "--json") as planning:
        assert planning.end() == 0, planning.errors
    planned = {job["job"]: job for job in json.loads(planning.output[0])["jobs"]}
    assert planned["each"]["runs"] > len(claimed["each"])
    assert planned["packed"]["runs"] < ENOUGH, "what ran when the node was killed may lie between two windows"
    assert planned["packed"]["covered"] > len(claimed["packed"])

    with story.up() as second:
        wait_for(
            lambda: all(max(run.instant for run in story.ran(job)) > until + MORE for job in JOBS),
            "both jobs go on",
            second,
        )
    since = {job: story.ran(job)[before[job] :] for job in claimed}
    order = [run.instant for run in since["each"] if run.instant <= until]
    assert order == sorted(order)
    assert set(claimed["each"]) <= set(order)
    assert all(run.is_recovery for run in since["each"] if run.instant in claimed["each"])
    widest = max(since["packed"], key=lambda run: run.instants)
    assert widest.is_recovery
    assert widest.instants >= ENOUGH
    assert widest.instant > claimed["packed"][-1], "it answers for what was claimed and for what had no row"
    alone = [run.instant for run in since["packed"] if run.instant in claimed["packed"]]
    assert len(alone) < ENOUGH - 1
    with Program(tmp_path, "audit", "--store", STORE) as audit:
        assert audit.end() in (0, 4), audit.output  # 4: the newest instants are not decided yet
