"""The log of a SQLite store is moved into the database when there is time for it, and if it is worth it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from itinerary.model.rows import JobNumber, OverlapSlotRow
from itinerary.stores.sqlite import wal_limit as logs
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.tables import OVERLAP_SLOTS


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteSession]:
    monkeypatch.setattr(logs, "_WORTH_A_CHECKPOINT", 1_000)
    session = SqliteSession(
        tmp_path / "store.db", synchronous="full", busy_timeout=5.0, clock=lambda: 1, on_told=lambda: None
    )
    yield session
    session.close()


def write(session: SqliteSession, count: int) -> None:
    session.begin()
    session.savepoint().put(OVERLAP_SLOTS, [OverlapSlotRow(JobNumber(number)) for number in range(count)])
    session.release()
    session.commit()


def size(tmp_path: Path) -> int:
    return (tmp_path / "store.db").stat().st_size


def test_much_that_was_written_is_in_the_database_after_a_rest(session: SqliteSession, tmp_path: Path) -> None:
    before = size(tmp_path)
    write(session, 2_000)
    assert size(tmp_path) == before, "it is in the log"
    session.rest()
    assert size(tmp_path) > before


def test_little_stays_in_the_log(session: SqliteSession, tmp_path: Path) -> None:
    before = size(tmp_path)
    write(session, 900)
    session.rest()
    assert size(tmp_path) == before
    write(session, 900)
    session.rest()
    assert size(tmp_path) > before, "it adds up"


def test_one_who_reads_meanwhile_is_not_disturbed_and_the_rest_comes_later(
    session: SqliteSession, tmp_path: Path
) -> None:
    reader = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM itinerary_overlap_slots").fetchone() == (0,)
    write(session, 2_000)
    session.rest()
    assert reader.execute("SELECT count(*) FROM itinerary_overlap_slots").fetchone() == (0,)
    reader.execute("COMMIT")
    reader.close()
    before = size(tmp_path)
    write(session, 2_000)
    session.rest()
    assert size(tmp_path) > before
