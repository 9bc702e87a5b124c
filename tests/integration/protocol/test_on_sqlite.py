"""The same scenes on SQLite, with two connections to one file, as two processes have.

SQLite lets one transaction write at a time. So most of these scenes cannot be played at all:

    4b, 13 (count)  a transaction that has read, and wants to write after another has committed, is refused: it cannot
                    go on from what it saw. The first test shows that
    6, 7a           nobody can be in the middle of a write while somebody else writes
    11              there are no locks on rows, and so no two of them to be taken in different orders
    24              COMMIT is a call of a function in the same process: there is no connection that could be lost
    29b             a number is taken by the one who writes, and no other can take one before that is committed

What remains is to look in one transaction and to write in another, which is what plain statements do that are not in a
transaction. Ours are, all of them, from `BEGIN IMMEDIATE` on. So in every scene the second one cannot even begin while
the first is in the middle (it is told so, since it was told not to wait), and then finds all as the first left it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from itinerary.errors import StoreBusy
from itinerary.model.events import NewEvent
from itinerary.model.policies import Overlap
from itinerary.model.queries import EventsQuery, LimitUseQuery, StoreStatusQuery
from itinerary.model.states import OccurrenceState
from itinerary.model.sweeps import SweepStep
from itinerary.model.timeline import EntryAccepted
from itinerary.model.writes import Limit, Refusal, Refused, Started, TakeoverWrite, Written
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import OVERLAP_SLOTS
from tests.contracts.stores.desk import HOUR, Desk
from tests.integration.protocol.scene import update
from tests.integration.protocol.sessions import THE_END, Session

A = TypeVar("A")
B = TypeVar("B")

_TABLES = """
CREATE TABLE versions (number INTEGER PRIMARY KEY);
CREATE TABLE watermark (value INTEGER NOT NULL);
INSERT INTO watermark VALUES (100);
CREATE TABLE slots (job TEXT PRIMARY KEY, occurrence INTEGER NOT NULL);
CREATE TABLE line (occurrence INTEGER PRIMARY KEY);
CREATE TABLE holders (occurrence INTEGER PRIMARY KEY);
CREATE TABLE partitions (name TEXT PRIMARY KEY, holder TEXT NOT NULL);
INSERT INTO partitions VALUES ('hotel', 'first');
CREATE TABLE events (number INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""

# -- the naive forms -------------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """Two connections to a file with the tables of the naive forms."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "naive.db", isolation_level=None, timeout=0)

    with closing(connect()) as one, closing(connect()) as other:
        one.execute("PRAGMA journal_mode = wal")
        one.executescript(_TABLES)
        yield one, other


def _value(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


Two = tuple[sqlite3.Connection, sqlite3.Connection]


def test_a_transaction_cannot_write_by_what_it_read_before_another_wrote(two: Two) -> None:
    one, other = two
    one.execute("BEGIN")
    assert _value(one, "SELECT count(*) FROM holders") == 0
    other.execute("INSERT INTO holders VALUES (101)")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        one.execute("INSERT INTO holders VALUES (102)")


def test_plain_statements_lose_the_instants_of_a_version_that_is_being_made(two: Two) -> None:
    person, sweep = two
    assert _value(person, "SELECT value FROM watermark") == 100
    assert _value(sweep, "SELECT count(*) FROM versions") == 0
    person.execute("INSERT INTO versions VALUES (1)")  # from 100 on
    sweep.execute("UPDATE watermark SET value = 200")
    assert _value(person, "SELECT value FROM watermark") == 200, "nobody decides what this version had before that"


def test_plain_statements_let_two_have_the_last_share(two: Two) -> None:
    for connection in two:
        assert _value(connection, "SELECT count(*) FROM holders") == 0
    for occurrence, connection in enumerate(two):
        connection.execute("INSERT INTO holders VALUES (?)", [occurrence])
    assert _value(two[0], "SELECT count(*) FROM holders") == 2, "where one is allowed"


def test_plain_statements_never_wake_one_that_goes_to_stand_in_line(two: Two) -> None:
    ending, enqueuing = two
    ending.execute("INSERT INTO slots VALUES ('backup', 150)")
    assert _value(enqueuing, "SELECT count(*) FROM slots") == 1, "it is taken"
    ending.execute("DELETE FROM slots WHERE occurrence = 150")
    assert _value(ending, "SELECT count(*) FROM line") == 0, "nobody stands in line"
    enqueuing.execute("INSERT INTO line VALUES (160)")
    assert _value(ending, "SELECT count(*) FROM slots") == 0
    assert _value(ending, "SELECT count(*) FROM line") == 1, "one does, before a slot that is free"


def test_a_slot_freed_by_name_is_the_successors(two: Two) -> None:
    frozen, reaper = two
    reaper.execute("INSERT INTO slots VALUES ('backup', 150)")
    assert _value(frozen, "SELECT occurrence FROM slots WHERE job = 'backup'") == 150, "it is mine"
    reaper.execute("UPDATE slots SET occurrence = 160 WHERE job = 'backup'")
    frozen.execute("DELETE FROM slots WHERE job = 'backup'")
    assert _value(reaper, "SELECT count(*) FROM slots") == 0, "though 160 runs"


def test_plain_statements_let_a_stale_holder_append(two: Two) -> None:
    stale, holder = two
    assert _value(stale, "SELECT holder FROM partitions") == "first"
    holder.execute("UPDATE partitions SET holder = 'second'")
    assert _value(holder, "SELECT count(*) FROM events") == 0, "the new holder knows all that there is"
    stale.execute("INSERT INTO events (text) VALUES ('of the old holder')")
    assert _value(holder, "SELECT count(*) FROM events") == 1


# -- ours ------------------------------------------------------------------------------------------------------------


class File:
    """A store in a file, and a second process that has it open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runner = asyncio.Runner()
        self._engine = SqliteEngine(path, busy_timeout=0)
        self._sessions: list[Session[Any]] = []
        self._store = EngineStore(self._engine)
        self.desk = Desk(self._store, self._engine, begins_plainly=False)

    def do(self, happening: Coroutine[Any, Any, A]) -> A:
        return self._runner.run(happening)

    def first(self, act: Callable[[EngineStore], Coroutine[Any, Any, A]]) -> Session[A]:
        """Somebody else who is about to do this."""
        session = Session("first", SqliteEngine(self._path), act)
        self._sessions.append(session)
        return session

    def then(self, first: Session[A], second: Callable[[EngineStore], Coroutine[Any, Any, B]]) -> tuple[A, B]:
        """Have a second one come while the first is in the middle, and once more when that has ended."""
        first.until(THE_END)
        with pytest.raises(StoreBusy):
            self.do(second(self._store))
        return first.finish(), self.do(second(self._store))

    def __enter__(self) -> File:
        self.do(self._store.open())
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            session.leave()
        self.do(self._store.close())
        self._runner.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    with File(tmp_path / "itinerary.db") as opened:
        yield opened


@pytest.mark.spec("R1")
def test_a_sweep_of_ours_has_to_read_the_version_that_was_being_made(file: File) -> None:
    desk = file.desk
    node, _ = file.do(desk.node()), file.do(desk.job())
    plan = file.do(desk.store.begin_sweep(node, file.do(desk.now())))
    assert plan is not None
    step = SweepStep(fence=plan.fence, step=1, cursor="", is_last=True)
    person = file.first(lambda store: store.amend([update()]))
    (entered,), swept = file.then(person, lambda store: store.advance_sweep(node, desk.revision, step))
    assert isinstance(entered, EntryAccepted)
    assert swept is Refusal.MOVED
    assert file.do(desk.store.read(StoreStatusQuery())).watermark == plan.start


@pytest.mark.spec("N1")
@pytest.mark.spec("D5")
def test_of_two_engines_on_one_file_that_claim_the_same_one_gets_it(file: File) -> None:
    desk = file.desk
    winner, loser, job = file.do(desk.node()), file.do(desk.node()), file.do(desk.job())
    wanted = [file.do(desk.wanted(job))]
    first = file.first(lambda store: store.claim(winner, desk.revision, wanted))
    won, lost = file.then(first, lambda store: store.claim(loser, desk.revision, wanted))
    assert isinstance(won, list)
    assert len(won) == 1
    assert lost == []


@pytest.mark.spec("X11")
def test_two_engines_on_one_file_cannot_both_have_the_last_share(file: File) -> None:
    desk = file.desk
    node = file.do(desk.node())
    limits = (Limit("api", 1),)
    jobs = [file.do(desk.job(f"job {number}")) for number in range(2)]
    requests = [desk.request(file.do(desk.due(node, job)), limits=limits) for job in jobs]
    first = file.first(lambda store: store.start(node, desk.revision, requests[:1], 0))
    first.until("after lock limits")
    (started,), refused = file.then(first, lambda store: store.start(node, desk.revision, requests[1:], 0))
    assert isinstance(started, Started)
    assert refused == [Refused(requests[1].ref, Refusal.LIMITED, "api")]
    assert list(file.do(desk.store.read(LimitUseQuery("api")))) == [started.ref]


@pytest.mark.spec("X6", "queue")
def test_an_end_of_ours_hands_the_slot_to_one_that_was_going_to_stand_in_line(file: File) -> None:
    desk = file.desk
    node, job = file.do(desk.node()), file.do(desk.job())
    running = file.do(desk.run(node, job))
    request = desk.request(file.do(desk.due(node, job)), overlap=Overlap.QUEUE)
    end = desk.end(running)
    enqueuing = file.first(lambda store: store.start(node, desk.revision, [request], 0))
    enqueuing.until("after lock overlap_slots")
    refused, ended = file.then(enqueuing, lambda store: store.write(node, [end]))
    assert refused == [Refused(request.ref, Refusal.QUEUED, f"waits for occurrence {running.ref}")]
    assert ended == [Written(running.ref, request.ref)]


@pytest.mark.spec("X6", "queue")
def test_one_that_was_going_to_stand_in_line_gets_the_slot_of_one_that_ended(file: File) -> None:
    desk = file.desk
    node, job = file.do(desk.node()), file.do(desk.job())
    running = file.do(desk.run(node, job))
    request = desk.request(file.do(desk.due(node, job)), overlap=Overlap.QUEUE)
    end = desk.end(running)
    ending = file.first(lambda store: store.write(node, [end]))
    ended, (started,) = file.then(ending, lambda store: store.start(node, desk.revision, [request], 0))
    assert ended == [Written(running.ref)]
    assert isinstance(started, Started)


@pytest.mark.spec("N4")
def test_the_late_result_of_a_reaped_run_of_ours_is_refused(file: File) -> None:
    desk = file.desk
    mine, others, job = file.do(desk.node()), file.do(desk.node()), file.do(desk.job())
    reaped = file.do(desk.run(mine, job))
    end = desk.end(reaped)
    stale = TakeoverWrite(reaped.ref, reaped.fence, OccurrenceState.FAILED_STALE, "over its time")
    reaper = file.first(lambda store: store.intervene(others, [stale]))
    written, (refused,) = file.then(reaper, lambda store: store.write(mine, [end]))
    assert written == [Written(reaped.ref)]
    assert isinstance(refused, Refused)
    assert refused.why is Refusal.LOST
    assert file.do(desk.engine.read(lambda tx: tx.get(OVERLAP_SLOTS, [(job,)])))[job,].ref is None


@pytest.mark.spec("E8")
def test_an_append_of_ours_after_a_takeover_is_refused(file: File) -> None:
    desk = file.desk
    first, second = file.do(desk.node()), file.do(desk.node())
    (lease,) = file.do(desk.store.lease(first, "bookings", ["hotel"], 1))
    event = NewEvent(kind="RecordCreated", record="1", cause="a")
    taking = file.first(lambda store: store.lease(second, "bookings", ["hotel"], HOUR))
    (taken,), answer = file.then(taking, lambda store: store.append("bookings", "hotel", [event], lease))
    assert taken.fence == lease.fence + 1
    assert answer is Refusal.LOST
    assert list(file.do(desk.store.read(EventsQuery("bookings")))) == []
