"""What a store holds after a fault, read as traces, and everything that must be true of it whatever happened.

`Dump.check` says what is true of any store. Here is what is true of one in which only the story `work` has been lived
(see `lives`): the rows of each occurrence are those of its last write and of no other, its job's history has it once,
who runs holds the slot, events are numbered without gaps, the timeline without holes.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from itinerary.model.rows import EntryKind, OccurrenceRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores import open_store, tables
from itinerary.stores.ledger.history import refs_in
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.dump import Dump
from tests.integration.stores.line import Watched

__all__ = ["Witness", "settle", "witness"]

_ALL_OF_THEM: Final = 1_000_000


class Witness:
    """Everything in a store, at one moment."""

    def __init__(self, tx: Transaction) -> None:
        self.dump = Dump(tx)
        for table in tables.ALL:
            if table.name:
                by_name = tx.scan(table, limit=_ALL_OF_THEM, by_name=True)
                by_key = self.dump.of(table)
                assert sorted(map(table.key_of, by_name)) == sorted(map(table.key_of, by_key)), table
                assert len(tx.named(table, [table.name_of(row) for row in by_key])) == len(by_key), table
        self.jobs = {row.number: row for row in self.dump.of(tables.JOBS)}

    # -- traces ------------------------------------------------------------------------------------------------------

    def traces(self) -> set[str]:
        """What can be found of what was asked for."""
        found = {f"node {row.incarnation}" for row in self.dump.of(tables.NODES)}
        for row in self.dump.occurrences.values():
            found |= {f"occurrence {row.instant} {row.job}", f"ref {row.ref} {row.instant} {row.job}"}
            found |= {f"write {row.ref} {sequence}" for sequence in range(1, row.sequence + 1)}
            found |= {f"fence {row.ref} {fence}" for fence in range(1, row.fence + 1)}
        for entry in self.dump.of(tables.ENTRIES):
            name = self.jobs[entry.job].name if entry.job else ""
            found |= {f"entry {name} {entry.request}", f"revision {entry.revision}"}
        for cause in self.dump.of(tables.IDEMPOTENCY_KEYS):
            found |= {f"event {cause.cause}", f"event {cause.cause} {cause.sequence}"}
        return found

    def compare(self, acknowledged: Sequence[str], open_calls: Sequence[Sequence[str]]) -> Counter[str]:
        """What was acknowledged is there; what was not is there whole, or not at all. How often it was which."""
        there = self.traces()
        lost = [trace for trace in acknowledged if trace not in there]
        assert not lost, f"acknowledged, and lost: {lost}"
        seen: Counter[str] = Counter()
        for call in open_calls:
            kept = [trace for trace in call if trace in there]
            assert len(kept) in (0, len(call)), f"not acknowledged, and there in part: {kept} of {call}"
            seen["whole" if kept else "not at all"] += 1
        return seen

    # -- what must be true -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the store is not one that `work` could have left behind."""
        self.dump.check()
        self._check_rows()
        self._check_history()
        self._check_slots()
        self._check_events()
        self._check_timeline()

    def _check_rows(self) -> None:
        tasks, attempts = defaultdict(list), defaultdict(list)
        for task in self.dump.of(tables.TASKS):
            tasks[task.ref].append(task)
        for attempt in self.dump.of(tables.ATTEMPTS):
            attempts[attempt.ref].append(attempt)
        assert set(tasks) | set(attempts) <= set(self.dump.occurrences)
        configs = {row.number for row in self.dump.of(tables.CONFIGS)}
        for row in self.dump.occurrences.values():
            if row.started_at is None:
                assert not tasks[row.ref], row
                assert not attempts[row.ref], row
                continue
            assert row.config in configs, row
            last = row.sequence - (row.status is OccurrenceState.ORPHANED)
            assert [task.result for task in tasks[row.ref]] == [str(last)], (row, tasks[row.ref])
            assert max(int(attempt.output or 0) for attempt in attempts[row.ref]) == last, (row, attempts[row.ref])

    def _check_history(self) -> None:
        refs: defaultdict[int, list[Ref]] = defaultdict(list)
        for chapter in self.dump.of(tables.HISTORY_CHUNKS):
            refs[chapter.job] += refs_in(chapter.refs)
        for slot in self.dump.of(tables.OVERLAP_SLOTS):
            refs[slot.job] += refs_in(slot.recent)
            assert slot.count == len(refs[slot.job]), slot
        of_jobs: defaultdict[int, list[Ref]] = defaultdict(list)
        for row in self.dump.occurrences.values():
            if row.ended_at is not None:
                of_jobs[row.job].append(row.ref)
        for job in self.jobs:
            assert sorted(refs[job]) == sorted(of_jobs[job]), job

    def _check_slots(self) -> None:
        slots = {slot.job: slot.ref for slot in self.dump.of(tables.OVERLAP_SLOTS)}
        assert set(slots) == set(self.jobs)
        for row in self.dump.occurrences.values():
            if _runs(row) and not self.jobs[row.job].name.endswith("allow"):
                assert slots[row.job] == row.ref, (row, slots[row.job])

    def _check_events(self) -> None:
        numbers = sorted(event.sequence for event in self.dump.of(tables.EVENTS))
        assert numbers == list(range(1, len(numbers) + 1))
        assert [stream.last for stream in self.dump.of(tables.STREAMS)] == ([len(numbers)] if numbers else [])
        causes = {row.cause: row.sequence for row in self.dump.of(tables.IDEMPOTENCY_KEYS)}
        homes = {cause.removeprefix("home/"): at for cause, at in causes.items() if cause.startswith("home/")}
        assert sorted(at for cause, at in causes.items() if not cause.startswith("home/")) == numbers
        first: dict[str, int] = {}
        for event in sorted(self.dump.of(tables.EVENTS), key=lambda event: event.sequence):
            first.setdefault(event.record, event.sequence)
        assert homes == first, "each record is found by its first event"

    def _check_timeline(self) -> None:
        entries = self.dump.of(tables.ENTRIES)
        (books,) = self.dump.of(tables.STORE_META)
        assert {entry.revision for entry in entries} == set(range(1, books.revision + 1))
        versions = Counter(entry.job for entry in entries if entry.kind is EntryKind.VERSION)
        assert {job.number: job.version for job in self.jobs.values()} == dict(versions)


def _runs(row: OccurrenceRow) -> bool:
    return row.started_at is not None and row.status not in FINAL


def settle(url: str) -> None:
    """Have all that dead processes had asked for come to an end: a server goes on with what it was sent."""
    if not url.startswith("postgres"):
        return
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
            " AND pid <> pg_backend_pid() LIMIT 1"
        ).fetchone():
            connection.execute("SELECT pg_sleep(0.002)")


def witness(url: str, life: Watched, *before: Watched) -> Counter[str]:
    """Open the store again, and check everything: what this life has said, and what those before it were told.

    What those had asked for and were not told was looked at when they had died. Later lives have gone on from there.
    """
    settle(url)

    async def look() -> Witness:
        async with open_store(url) as store:
            return await store._engine.read(Witness)

    seen = asyncio.run(look())
    seen.check()
    if url.startswith("sqlite"):
        _check_file(urlsplit(url).path.removeprefix("/"))
    for one in before:
        seen.compare(one.acknowledged, ())
    counted = seen.compare(life.acknowledged, life.open_calls)
    counted["acknowledged"] = len(life.acknowledged)
    return counted


def _check_file(path: str) -> None:
    connection: Any = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
