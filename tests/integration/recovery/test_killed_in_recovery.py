"""A node that is killed with -9 in the middle of its recovery, again and again, on stores on disk (R1, R2)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import itinerary
from itinerary.audit import audit_store
from itinerary.model import RecoveryPolicy
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Recovery
from itinerary.model.rows import EntryKind, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.schedules import Schedule, cron, every
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from itinerary.stores.tables import ENTRIES, JOBS, OCCURRENCES, SWEEP
from itinerary.stores.transaction import Transaction
from tests.integration.stores.conftest import Places, places, postgres_server
from tests.oracles.recovery import Told, expected_rows

__all__ = ["places", "postgres_server"]

HOUR = 3_600
DOWN = 30 * HOUR
EACH_SECOND = 1_500
"""How many instants the job each second has, at the beginning of the outage."""
LIVES = 10
ROOT = Path(itinerary.__file__).parent.parent.parent


def jobs(began_at: int) -> dict[str, tuple[Schedule, Recovery]]:
    """One for each strategy: hourly, and each second for a while."""
    until = datetime.fromtimestamp(began_at + EACH_SECOND - 1, UTC)
    found: dict[str, tuple[Schedule, Recovery]] = {}
    for strategy in Recovery:
        found[f"hourly_{strategy}"] = cron("0 * * * *"), strategy
        found[f"often_{strategy}"] = every("1s", end=until), strategy
    return found


def entry(name: str, schedule: Schedule, strategy: Recovery) -> TimelineEntryRequest:
    run = {"python": "tests.integration.recovery.recovering:noop"}
    task = Task(id=task_id(job_id(name), "main"), name="main", order=0, definition=run)
    overrides = Overrides(recovery=RecoveryPolicy(strategy))
    body = to_json(Definition(schedule=schedule.to_json(), tasks=(task,), overrides=overrides)).decode()
    return TimelineEntryRequest(job=name, kind=EntryKind.VERSION, request="first", by="test", from_version=0, body=body)


async def go_down(url: str, began_at: int) -> None:
    """Register jobs, and set the books back: that was hours ago, and nobody has been there since."""

    def set_back(tx: Transaction) -> None:
        at = began_at * SECOND
        tx.put(ENTRIES, [replace(row, effective_from=at) for row in tx.scan(ENTRIES, limit=100)])
        tx.put(JOBS, [replace(row, registered_at=at, history_floor=at) for row in tx.scan(JOBS, limit=100)])
        tx.put(SWEEP, [replace(row, watermark=at) for row in tx.scan(SWEEP, limit=1)])

    async with open_store(url) as store:
        for entered in await store.amend([entry(name, *what) for name, what in jobs(began_at).items()]):
            assert isinstance(entered, EntryAccepted)
        await store._engine.write(set_back)


def recover(url: str, step: int, when: str, until: int) -> int:
    """One life of a node; how it ended."""
    arguments = [sys.executable, "-m", "tests.integration.recovery.recovering", url, str(step), when, str(until)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(  # noqa: S603 - ourselves
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


async def look(url: str) -> tuple[dict[str, list[OccurrenceRow]], Any]:
    """All rows by job, and the sweep."""

    def read(tx: Transaction) -> tuple[Any, Any, Any]:
        return tx.scan(JOBS, limit=100), tx.scan(OCCURRENCES, limit=1_000_000), tx.scan(SWEEP, limit=1)

    async with open_store(url) as store:
        listed, rows, (sweep,) = await store._engine.read(read)
    names = {job.number: job.name for job in listed}
    found: dict[str, list[OccurrenceRow]] = {name: [] for name in names.values()}
    for row in sorted(rows, key=lambda row: row.key):
        found[names[row.job]].append(row)
    return found, sweep


def told(row: OccurrenceRow) -> Told:
    """As the oracle tells it, in seconds since the epoch."""
    window = row.window
    span = None if window is None else (window.start // SECOND, window.end // SECOND, window.count)
    return Told(row.instant // SECOND, row.status is not OccurrenceState.MISSED, span)


@pytest.mark.spec("R2", "kill -9")
@pytest.mark.spec("R1", "every strategy")
@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
def test_a_node_that_is_killed_at_its_steps_ten_times_over_leaves_what_an_undisturbed_one_would(
    places: Places,
) -> None:
    url, now = places(), int(time.time())
    began_at = now - DOWN
    asyncio.run(go_down(url, began_at))
    assert recover(url, 1, "after", now) == -signal.SIGKILL
    _, sweep = asyncio.run(look(url))
    assert sweep.plan_to is not None, "it has died in the middle"
    kills = 1
    for life in range(1, LIVES):
        kills += recover(url, 1 + life % 2, "before" if life % 3 else "after", now) == -signal.SIGKILL
    assert kills == LIVES
    assert recover(url, 0, "never", now) == 0
    rows, after = asyncio.run(look(url))
    assert after.watermark >= max(sweep.plan_to, now * SECOND), "all that was to be recovered has been decided"
    assert after.plan_to is None or after.plan_from == after.watermark, "what is open is a later sweep's"
    old = sweep.plan_to - 30 * SECOND
    for name, (_, strategy) in jobs(began_at).items():
        last = began_at + EACH_SECOND if name.startswith("often") else -(-old // SECOND)
        first, pace = (began_at, 1) if name.startswith("often") else (-(-began_at // HOUR) * HOUR, HOUR)
        expected = expected_rows(strategy, range(first, last, pace), sweep.plan_to // SECOND)
        found = [row for row in rows[name] if row.instant < old]
        assert [told(row) for row in found] == expected, name
        assert all(row.is_recovery for row in found)

    async def audited() -> Any:
        async with open_store(url) as store:
            return await audit_store(store, None, None)

    report = asyncio.run(audited())
    assert (report.lost, report.doubled) == (0, 0), report
