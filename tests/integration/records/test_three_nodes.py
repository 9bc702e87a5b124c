"""Three processes and three hundred partitions on PostgreSQL: who holds what, when one is killed, and one is frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

from itinerary.model.queries import EventsQuery, NodesQuery, PartitionsQuery, Query, StoreStatusQuery
from itinerary.model.rows import EventRow, PartitionRow
from itinerary.records.event_types import produced
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from tests.integration.records.programs import program
from tests.servers import PostgresServer

Answer = TypeVar("Answer")
HOTELS = [f"hotel {number}" for number in range(300)]
NAMES = ("anna", "berta", "clara")
LEASE, HEARTBEAT = 6, 1
"""Seconds, as far apart as they are by default."""
PATIENCE = 120.0


class Log:
    """A store, asked from outside."""

    def __init__(self, url: str) -> None:
        self.url = url

    def read(self, query: Query[Answer]) -> Answer:
        async def ask() -> Answer:
            async with open_store(self.url) as store:
                return await store.read(query)

        return asyncio.run(ask())

    def create(self, turn: str, hotels: Iterable[str]) -> None:
        async def say() -> None:
            async with open_store(self.url) as store:
                for hotel in hotels:
                    record = f"{turn} of {hotel}"
                    event = produced("RecordCreated", record, {"data": {}}, f"created {record}")
                    assert isinstance(await store.append("folio", hotel, [event]), list)

        asyncio.run(say())

    def events(self, kind: str) -> list[EventRow]:
        return [row for row in self.read(EventsQuery("folio", limit=1_000_000)) if row.kind == kind]

    def held(self) -> list[PartitionRow]:
        """The partitions that somebody holds now."""
        now = self.read(StoreStatusQuery()).now
        return [row for row in self.read(PartitionsQuery("folio")) if row.holder is not None and row.lease_until > now]

    def shares(self) -> Counter[int]:
        return Counter(row.holder for row in self.held() if row.holder is not None)

    def queued(self, turn: str) -> dict[str, int]:
        """When the records of a turn were queued, by their partition."""
        rows = [row for row in self.events("RecordQueued") if row.record.startswith(f"{turn} of ")]
        assert len({row.record for row in rows}) == len(rows), "one is queued twice"
        return {row.partition: row.at for row in rows}

    def number(self, name: str) -> int:
        (found,) = [node.number for node in self.read(NodesQuery()) if node.name == name]
        return found


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.spec("E8", "real processes")
def test_three_processes_share_three_hundred_partitions_and_take_over_from_who_is_killed_or_frozen(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres_server.database() as url, ExitStack() as stack:
        log, lines = Log(url), {name: tmp_path / f"{name}.log" for name in NAMES}
        asyncio.run(_made(url))
        log.create("first", HOTELS)
        settings = (f"{LEASE}s", f"{HEARTBEAT}s")
        nodes = {
            name: stack.enter_context(program(url, tmp_path / "seen", name, *settings, log=lines[name]))
            for name in NAMES
        }
        until(lambda: len(log.queued("first")) == 300, "not all are served")
        until(lambda: sorted(log.shares()) == sorted(map(log.number, NAMES)), "somebody holds nothing")
        until(lambda: all(90 <= count <= 110 for count in log.shares().values()), f"uneven: {log.shares()}")

        anna = log.number("anna")
        abandoned = {row.partition: row.lease_until for row in log.held() if row.holder == anna}
        os.kill(nodes["anna"].pid, signal.SIGKILL)
        killed_at = log.read(StoreStatusQuery()).now
        log.create("second", abandoned)
        until(lambda: len(log.queued("second")) == len(abandoned), "what the killed one held is not served")
        took = max(log.queued("second").values()) - killed_at
        print(f"what was held by the killed one was served {took / SECOND:.1f} s later, with leases of {LEASE} s")
        until(lambda: sorted(log.shares().values()) == [150, 150], f"uneven: {log.shares()}")

        berta = log.number("berta")
        os.kill(nodes["berta"].pid, signal.SIGSTOP)
        frozen = {row.partition: row.fence for row in log.read(PartitionsQuery("folio")) if row.holder == berta}
        log.create("third", frozen)
        until(lambda: len(log.queued("third")) == len(frozen), "what the frozen one held is not served")
        os.kill(nodes["berta"].pid, signal.SIGCONT)
        until(lambda: b"records.partition_lost" in lines["berta"].read_bytes(), "the frozen one has noticed nothing")
        log.create("fourth", HOTELS)
        until(lambda: len(log.queued("fourth")) == 300, "not all are served after that")
        until(lambda: sorted(log.shares().values()) == [150, 150], f"uneven: {log.shares()}")
        for name in ("berta", "clara"):
            nodes[name].send_signal(signal.SIGTERM)
            assert nodes[name].wait(PATIENCE) == 0
        assert log.shares() == {}, "who leaves gives back what it holds"


async def _made(url: str) -> None:
    async with open_store(url):
        """A store that has not been opened has no tables."""
