"""Real processes that are killed with `kill -9` while their desk is at work: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from itinerary.model.queries import EventsQuery
from itinerary.model.rows import EventRow
from itinerary.records.event_types import produced, read_fields
from itinerary.stores import open_store
from tests.integration.records.programs import program
from tests.integration.stores.scale import SCALE

RECORDS = 60
PATIENCE = 60.0


async def say(url: str, turn: int) -> None:
    """Some records, each with a callback and a verification that are due now; some are completed at once."""
    now = datetime.now(UTC)
    async with open_store(url) as store:
        for number in range(RECORDS // 6):
            record, hotel = f"F-{turn}-{number}", ["lisbon", "tokyo", "honolulu"][number % 3]
            events = [
                produced("RecordCreated", record, {"data": {"turn": turn}}, f"created {record}"),
                produced("CallbackScheduled", record, {"target_time": now}, f"back {record}"),
                produced("VerificationScheduled", record, {"check_time": now, "verification": "email"}, f"v {record}"),
            ]
            if number == 0:
                events.append(produced("RecordCompleted", record, {"final_status": "gone"}, f"done {record}"))
            assert isinstance(await store.append("folio", hotel, events), list)


async def log_of(url: str) -> list[EventRow]:
    async with open_store(url) as store:
        return list(await store.read(EventsQuery("folio", limit=1_000_000)))


def is_settled(rows: list[EventRow]) -> bool:
    """Whether everything that was said has been dealt with."""
    done = {row.record for row in rows if row.kind == "RecordCompleted"}
    created = {row.record for row in rows if row.kind == "RecordCreated"} - done
    queued = Counter(row.record for row in rows if row.kind == "RecordQueued")
    verified = {row.record for row in rows if row.kind == "VerificationCompleted"}
    batches = {read_fields(row).batch for row in rows if row.kind == "RecordQueued"}
    acknowledged = {read_fields(row).batch for row in rows if row.kind == "BatchAcknowledged"}
    return all(queued[record] == 2 for record in created) and created <= verified and batches == acknowledged


@pytest.mark.spec("E1")
@pytest.mark.spec("E10")
def test_a_desk_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path: Path) -> None:
    url, seen, dice = f"sqlite:///{tmp_path}/itinerary.db", tmp_path / "seen", random.Random(7)  # noqa: S311
    for turn in range(5 * SCALE):
        with program(url, seen) as process:
            asyncio.run(say(url, turn))
            time.sleep(dice.uniform(0.0, 2.0))  # a real process, at a moment that nobody chose
            os.kill(process.pid, signal.SIGKILL)
    with program(url, seen) as process:
        rows = _settled(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    emitted: Counter[Any] = Counter()
    for row in rows:
        said = read_fields(row)
        if row.kind == "RecordQueued":
            emitted[row.record, "queued", said.target_time] += 1
        elif row.kind in ("VerificationTriggered", "VerificationCompleted"):
            emitted[row.record, row.kind] += 1
    assert emitted
    assert set(emitted.values()) == {1}
    handled = Counter(line.rpartition(" ")[0] for line in seen.read_text("utf-8").splitlines())
    created = {row.record for row in rows if row.kind == "RecordCreated"}
    completed = {row.record for row in rows if row.kind == "RecordCompleted"}
    assert {f"{record} {times}" for record in created - completed for times in (1, 2, "verified")} <= set(handled)
    assert not [line for line in handled if line.partition(" ")[0] in completed], "they were completed before a cycle"


def until_stopped(pid: int) -> None:
    """Until every thread of a process stands still: the signal is sent to all, and each takes it when it can."""
    threads = Path(f"/proc/{pid}/task")
    while not all(
        (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt" for thread in list(threads.iterdir())
    ):
        time.sleep(0.001)


def freeze(process: subprocess.Popen[bytes], path: Path) -> None:
    """Stop a process, but not in the middle of a transaction: SQLite has one writer, and nobody could go on."""
    deadline = time.monotonic() + PATIENCE
    while True:
        os.kill(process.pid, signal.SIGSTOP)
        until_stopped(process.pid)
        with closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                assert time.monotonic() < deadline, "it writes all the time"
            else:
                return
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.01)


@pytest.mark.spec("E8")
def test_a_process_that_was_frozen_while_another_took_over_doubles_nothing_when_it_wakes(tmp_path: Path) -> None:
    url, seen = f"sqlite:///{tmp_path}/itinerary.db", tmp_path / "seen"
    with program(url, seen) as frozen:
        asyncio.run(say(url, 0))
        deadline = time.monotonic() + PATIENCE
        while not any(row.kind == "RecordQueued" for row in asyncio.run(log_of(url))):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        freeze(frozen, tmp_path / "itinerary.db")
        with program(url, seen, log=tmp_path / "other.log") as other:
            asyncio.run(say(url, 1))
            rows = _settled(url)
            os.kill(frozen.pid, signal.SIGCONT)
            asyncio.run(say(url, 2))
            rows = _settled(url)
            for process in (frozen, other):
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
    emitted = Counter((row.record, read_fields(row).target_time) for row in rows if row.kind == "RecordQueued")
    assert set(emitted.values()) == {1}
    results = Counter(row.record for row in rows if row.kind == "VerificationCompleted")
    assert set(results.values()) == {1}


def _settled(url: str) -> list[EventRow]:
    deadline = time.monotonic() + PATIENCE
    while not is_settled(rows := asyncio.run(log_of(url))):
        assert time.monotonic() < deadline, f"not settled: {Counter(row.kind for row in rows)}"
        time.sleep(0.2)
    return rows
