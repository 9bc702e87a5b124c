"""Deploys: nodes are stopped with SIGTERM and started again, over and over, and no run is lost (R9).

Judged by what the tasks wrote themselves. `itinerary up` runs twice on one store, with many short jobs of every policy
on coroutines and in worker processes, of which there are fewer than work.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from itinerary.model.queries import ActiveQuery, HistoryQuery, JobsQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.e2e.cli.program import PATIENCE, Program
from tests.servers import PostgresServer, postgres_server

__all__ = ["postgres_server"]

APP = """
import asyncio, os, time
from itinerary import Itinerary, every

app = Itinerary(shutdown_grace_period="20s", kill_grace="5s")

def note(ctx, what):
    handle = os.open("runs.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{what} {ctx.job} {ctx.scheduled_at.timestamp():.0f} {ctx.attempt}\\n".encode())
    os.close(handle)

async def work(ctx):
    note(ctx, "begin")
    await asyncio.sleep(2.0 if ctx.job.startswith("rerun") else 0.1)
    note(ctx, "end")

def crunch(ctx):
    note(ctx, "begin")
    time.sleep(0.2)
    note(ctx, "end")

for number in range(4):
    app.job(f"finish-{number}", every("1s"), overlap="allow").task(work)
for number in range(2):
    app.job(f"rerun-{number}", every("2s"), overlap="allow", on_shutdown="rerun").task(work)
for number in range(2):
    app.job(f"cancel-{number}", every("1s"), overlap="allow", on_shutdown="cancel", executor="process").task(crunch)
"""
ROUNDS = 3


class Run(NamedTuple):
    job: str
    instant: int


class Wrote(NamedTuple):
    """What the tasks of one run wrote: the numbers of the attempts that began, and of those that ended."""

    began: list[int]
    ended: list[int]


def written(directory: Path) -> dict[Run, Wrote]:
    found: defaultdict[Run, Wrote] = defaultdict(lambda: Wrote([], []))
    log = directory / "runs.log"
    for line in log.read_text("utf-8").splitlines() if log.exists() else ():
        what, job, instant, attempt = line.split()
        wrote = found[Run(job, int(instant))]
        (wrote.began if what == "begin" else wrote.ended).append(int(attempt))
    return found


@contextmanager
def store_of(kind: str, directory: Path, server: PostgresServer) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{directory}/runs.db"
    else:
        with server.database() as url:
            yield url


def rows_of(url: str) -> dict[Run, OccurrenceRow]:
    async def read() -> dict[Run, OccurrenceRow]:
        async with open_store(url) as store:
            found = {}
            for job in await store.read(JobsQuery()):
                ended = (await store.read(HistoryQuery(job.number, limit=1_000))).rows
                for row in [*ended, *await store.read(ActiveQuery(job.number))]:
                    found[Run(job.name, row.instant // SECOND)] = row
            return found

    return asyncio.run(read())


def has_started(line: str) -> bool:
    return '"node.started"' in line


def until_more_have_ended(directory: Path) -> None:
    """Wait until each kind of job has ended some runs since now: the node that was started last has had its part."""
    before = len(written(directory))
    deadline = time.monotonic() + PATIENCE
    while len(written(directory)) < before + 12:
        assert time.monotonic() < deadline, "the nodes run nothing any more"
        time.sleep(0.05)


@pytest.mark.spec("R9", "no run is lost")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_deploys_lose_no_run_and_run_none_twice(kind: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with store_of(kind, tmp_path, postgres_server) as url:

        def up(name: str) -> Program:
            return Program(tmp_path, "up", "app.py", "--store", url, "--name", name, "--log", "json", "-q")

        nodes = {name: up(name) for name in ("first", "second")}
        try:
            for node in nodes.values():
                node.until(has_started)
            for number in range(ROUNDS):
                until_more_have_ended(tmp_path)
                name = ("first", "second")[number % 2]
                with nodes[name] as node:
                    node.signal(signal.SIGTERM)
                    assert node.end() == 0, node.errors
                nodes[name] = up(name)
                nodes[name].until(has_started)
            until_more_have_ended(tmp_path)
            for node in nodes.values():
                node.signal(signal.SIGTERM)
            assert [node.end() for node in nodes.values()] == [0, 0]
            stopped_at = int(time.time())
            nodes["last"] = up("last")  # the next start has the rest
            rows = until_all_is_decided(url, stopped_at)
        finally:
            for node in nodes.values():
                with node:
                    pass
    judge(rows, written(tmp_path))


def until_all_is_decided(url: str, stopped_at: int) -> dict[Run, OccurrenceRow]:
    """Wait until all that was due when the nodes were stopped has ended, and return it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        rows = {run: row for run, row in rows_of(url).items() if run.instant < stopped_at}
        left = [row for row in rows.values() if row.status not in FINAL]
        latest = max((run.instant for run in rows), default=0)
        if not left and latest >= stopped_at - 2:
            return rows
        assert time.monotonic() < deadline, f"still not over: {left[:5]}"
        time.sleep(0.2)


def judge(rows: dict[Run, OccurrenceRow], wrote: dict[Run, Wrote]) -> None:
    by_job: defaultdict[str, list[int]] = defaultdict(list)
    for run, row in sorted(rows.items()):
        by_job[run.job].append(run.instant)
        began, ended = wrote.get(run, Wrote([], []))
        assert len(began) == len(set(began)), f"{run} began an attempt twice: {began}"
        if row.status is OccurrenceState.CANCELLED:
            assert run.job.startswith("cancel"), f"{run} was cancelled: {row.reason}"
            assert began, f"{run} was cancelled, and its function was never called"
            assert not ended, f"{run} was cancelled, and had done its work"
        else:
            assert row.status is OccurrenceState.COMPLETED, f"{run} is {row.status}: {row.reason}"
            assert len(ended) == 1, f"{run} has done its work {len(ended)} times"
            assert len(began) == 1 or run.job.startswith("rerun"), f"{run} began {len(began)} times"
    for job, instants in by_job.items():
        step = 2 if job.startswith("rerun") else 1
        assert instants == list(range(instants[0], instants[-1] + 1, step)), f"{job} lacks instants: {instants}"
    assert any(len(wrote[run].began) > 1 for run in rows if run.job.startswith("rerun")), "none was run again"
