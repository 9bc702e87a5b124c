"""What the writer's connection knows is what is in the file: whoever else writes, and whatever is undone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from itinerary.model.rows import JobNumber, OverlapSlotRow, Ref
from itinerary.stores.sqlite import row_cache as known
from itinerary.stores.sqlite.session import SqliteSession
from itinerary.stores.tables import OVERLAP_SLOTS

JOB = JobNumber(1)
SLOT = OverlapSlotRow(JOB)


class Place(SqliteSession):
    """A session that counts the rows it is asked to read."""

    def __init__(self, path: Path) -> None:
        clock = count(1)
        super().__init__(path, synchronous="normal", busy_timeout=5.0, clock=lambda: next(clock), on_told=lambda: None)
        self.reads = 0
        self._connection.set_trace_callback(self._heard)

    def _heard(self, statement: str) -> None:
        self.reads += "json_group_array" in statement

    def read(self) -> OverlapSlotRow | None:
        self.begin()
        row = self.savepoint().lock(OVERLAP_SLOTS, [(JOB,)]).get((JOB,))
        self.release()
        self.commit()
        return row

    def write(self, row: OverlapSlotRow) -> None:
        self.begin()
        self.savepoint().put(OVERLAP_SLOTS, [row])
        self.release()
        self.commit()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def place(path: Path) -> Iterator[Place]:
    place = Place(path)
    place.write(SLOT)
    yield place
    place.close()


def test_what_was_written_here_last_is_not_read_again(place: Place) -> None:
    before = place.reads
    assert [place.read(), place.read()] == [SLOT, SLOT]
    assert place.reads == before


@pytest.mark.spec("N2", "one file, several processes")
def test_what_another_connection_has_written_is_seen_at_once(place: Place, path: Path) -> None:
    assert place.read() == SLOT
    other = Place(path)
    other.write(replace(SLOT, ref=Ref(5), fence=2))
    other.close()
    assert place.read() == replace(SLOT, ref=Ref(5), fence=2)


def test_what_was_undone_is_not_remembered(place: Place) -> None:
    place.begin()
    place.savepoint().put(OVERLAP_SLOTS, [replace(SLOT, ref=Ref(5))])
    place.undo(ValueError("the work raised"))
    place.commit()
    assert place.read() == SLOT


def test_what_was_rolled_back_with_its_whole_transaction_is_not_remembered(place: Place) -> None:
    place.begin()
    place.savepoint().save(OVERLAP_SLOTS, [replace(SLOT, ref=Ref(5))], ("ref",))
    place.release()
    place.rollback()
    assert place.read() == SLOT


def test_what_was_removed_is_gone(place: Place) -> None:
    place.begin()
    tx = place.savepoint()
    tx.remove(OVERLAP_SLOTS, [(JOB,)])
    assert tx.lock(OVERLAP_SLOTS, [(JOB,)]) == {}
    place.release()
    place.commit()
    assert place.read() is None


def test_the_oldest_are_forgotten_first_and_read_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_MAX", 10)
    slots = [OverlapSlotRow(JobNumber(number)) for number in range(1, 31)]
    place.begin()
    tx = place.savepoint()
    tx.put(OVERLAP_SLOTS, slots)
    before = place.reads
    newest = [(slot.job,) for slot in slots[-10:]]
    assert list(tx.lock(OVERLAP_SLOTS, newest)) == newest
    assert place.reads == before
    assert list(tx.lock(OVERLAP_SLOTS, [(slot.job,) for slot in slots]).values()) != []
    assert place.reads > before
    assert set(tx.get(OVERLAP_SLOTS, [(slot.job,) for slot in slots]).values()) == set(slots)
    place.release()
    place.commit()
