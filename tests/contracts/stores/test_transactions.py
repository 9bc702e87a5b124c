"""What every engine's transactions promise (see `itinerary.stores.transaction`), primitive by primitive."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest

from itinerary.errors import Unwritable
from itinerary.model.occurrence import Kind
from itinerary.model.states import OccurrenceState
from itinerary.stores.base import Engine
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.tables import (
    ACTIVE,
    ENTRIES,
    EVENTS,
    JOBS,
    LIMITS,
    OCCURRENCES,
    SHARES,
    SIGNALS,
    SLOTS,
    TRANSITIONS,
    WAITING,
    Table,
    Values,
)
from itinerary.stores.transaction import Transaction
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import sample

pytestmark = pytest.mark.spec("D4")


def occurrence(instant: int, job: int = 1, **values: Any) -> Any:
    return sample(OCCURRENCES, instant=instant, job=job, kind=Kind.SCHEDULED, **values)


def active(*keys: tuple[int, int]) -> list[Any]:
    return [sample(ACTIVE, job=job, ref=ref, due_at=10 * ref) for job, ref in keys]


def event(stream: str, partition: str, sequence: int, **values: Any) -> Any:
    return sample(EVENTS, stream=stream, partition=partition, sequence=sequence, **values)


def everything(store: Opened, table: Table[Any]) -> list[Any]:
    return store.read(lambda tx: tx.scan(table, limit=10_000))


def add(table: Table[Any], rows: list[Any], tx: Transaction) -> list[Any]:
    return tx.add(table, rows)


def keys_of(table: Table[Any], rows: list[Any]) -> list[Values]:
    return [table.key_of(row) for row in rows]


# -- rows in and out --------------------------------------------------------------------------------------------------


def test_a_row_comes_back_as_it_was_written(store: Opened) -> None:
    row = occurrence(
        -(2**63),
        2**62,
        request="ключ 🗝 'quoted' \"twice\" \\ \n\t\x01",
        version=2**63 - 1,
        is_recovery=True,
        status=OccurrenceState.RUNNING,
        owner=None,
        started_at=0,
        reason="",
    )
    (created,) = store.write(lambda tx: tx.add(OCCURRENCES, [row]))
    (read,) = store.read(lambda tx: tx.get(OCCURRENCES, [(created.ref,)])).values()
    assert read == created == msgspec.structs.replace(row, ref=created.ref)
    assert read.is_recovery is True
    assert read.kind is Kind.SCHEDULED
    assert read.status is OccurrenceState.RUNNING


@pytest.mark.parametrize("recent", [b"", b"\x00", bytes(range(256)) * 20])
def test_bytes_come_back_as_they_were_written(store: Opened, recent: bytes) -> None:
    store.write(lambda tx: tx.put(SLOTS, [sample(SLOTS, job=7, recent=recent)]))
    (read,) = everything(store, SLOTS)
    assert read.recent == recent
    assert type(read.recent) is bytes


def test_many_rows_at_once_are_all_there(store: Opened) -> None:
    rows = [sample(ACTIVE, job=number % 7, ref=number, due_at=number) for number in range(1_111)]
    created = store.write(lambda tx: tx.add(ACTIVE, rows))
    assert created == sorted(rows, key=ACTIVE.key_of)
    assert everything(store, ACTIVE) == created
    found = store.read(lambda tx: tx.get(ACTIVE, keys_of(ACTIVE, rows)))
    assert found == {ACTIVE.key_of(row): row for row in rows}


def test_nothing_asked_is_nothing_done(store: Opened) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.put(ACTIVE, [])
        tx.save(ACTIVE, [], ["due_at"])
        tx.remove(ACTIVE, [])
        tx.tell([])
        return [tx.add(ACTIVE, []), tx.add(JOBS, []), tx.get(ACTIVE, []), tx.lock(ACTIVE, []), tx.named(JOBS, [])]

    assert store.write(work) == [[], [], {}, {}, {}]


def test_what_is_not_there_is_left_out(store: Opened) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 1), (1, 3))))
    wanted = [(1, 3), (1, 2), (1, 1), (2, 1)]
    assert list(store.read(lambda tx: tx.get(ACTIVE, wanted))) == [(1, 3), (1, 1)]
    assert list(store.write(lambda tx: tx.lock(ACTIVE, wanted))) == [(1, 1), (1, 3)], "in the order of keys"


def test_a_row_is_found_by_its_name(store: Opened) -> None:
    store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(5), occurrence(6), occurrence(6, 2)]))
    names = [(6, 2, Kind.SCHEDULED, ""), (5, 1, Kind.SCHEDULED, ""), (5, 1, Kind.TRIGGER, "")]
    found = store.read(lambda tx: tx.named(OCCURRENCES, names))
    assert [(name, row.instant, row.job) for name, row in found.items()] == [(names[0], 6, 2), (names[1], 5, 1)]


def test_a_transaction_sees_what_it_has_written(store: Opened) -> None:
    def work(tx: Transaction) -> list[Any]:
        tx.add(ACTIVE, active((1, 1), (1, 2)))
        tx.remove(ACTIVE, [(1, 1)])
        tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=2, due_at=5)])
        return [tx.get(ACTIVE, [(1, 1)]), *tx.scan(ACTIVE, limit=10)]

    assert store.write(work) == [{}, sample(ACTIVE, job=1, ref=2, due_at=5)]


def test_time_stands_still_in_a_transaction_and_is_not_before_the_last(store: Opened) -> None:
    first, again = store.write(lambda tx: (tx.now(), tx.now()))
    assert first == again
    assert store.write(lambda tx: tx.now()) >= first > 0


def test_the_gate_lets_work_pass_alone_and_together(store: Opened) -> None:
    def work(tx: Transaction) -> int:
        tx.gate(exclusive=True)
        return len(tx.add(ACTIVE, active((1, 1))))

    assert store.write(work) == 1

    def look(tx: Transaction) -> int:
        tx.gate()
        return len(tx.scan(ACTIVE, limit=5))

    assert store.read(look) == 1


# -- add --------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D5")
def test_add_tells_what_was_new_from_what_was_there(store: Opened) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 2))))
    other = sample(ACTIVE, job=1, ref=2, due_at=99)
    created = store.write(lambda tx: tx.add(ACTIVE, [*active((1, 3)), other, *active((1, 1))]))
    assert keys_of(ACTIVE, created) == [(1, 1), (1, 3)]
    assert everything(store, ACTIVE) == active((1, 1), (1, 2), (1, 3)), "what was there is left alone"


@pytest.mark.spec("D5")
def test_of_two_rows_with_one_key_in_one_batch_the_first_is_created(store: Opened) -> None:
    first, second = (sample(ACTIVE, job=1, ref=1, due_at=due) for due in (5, 4))
    assert store.write(lambda tx: tx.add(ACTIVE, [first, second])) == [first]
    assert everything(store, ACTIVE) == [first]


@pytest.mark.spec("D5")
def test_a_name_that_is_taken_is_as_good_as_a_key(store: Opened) -> None:
    there = event("s", "a", 1)
    store.write(lambda tx: tx.add(EVENTS, [there]))
    new = [event("s", "b", 1), event("s", "b", 2), event("s", "c", 2), event("t", "b", 1)]
    created = store.write(lambda tx: tx.add(EVENTS, new))
    assert keys_of(EVENTS, created) == [("s", "b", 2), ("t", "b", 1)]
    assert len(everything(store, EVENTS)) == 3


@pytest.mark.spec("D5")
def test_numbers_are_given_out_in_the_order_of_names(store: Opened) -> None:
    rows = [occurrence(instant, ref=77) for instant in (30, 10, 20)]
    created = store.write(lambda tx: tx.add(OCCURRENCES, rows))
    assert [row.instant for row in created] == [10, 20, 30]
    refs = [row.ref for row in created]
    assert refs == sorted(set(refs))
    assert everything(store, OCCURRENCES) == created


@pytest.mark.spec("D5")
def test_a_race_for_a_name_has_one_winner_whatever_the_number_says(store: Opened) -> None:
    (first,) = store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(10, ref=1)]))
    batch = [occurrence(10, ref=5), occurrence(20, ref=1, priority=1), occurrence(20, ref=2, priority=2), occurrence(5)]
    created = store.write(lambda tx: tx.add(OCCURRENCES, batch))
    assert [(row.instant, row.priority) for row in created] == [(5, 0), (20, 1)]
    assert len({first.ref, *(row.ref for row in created)}) == 3
    assert len(everything(store, OCCURRENCES)) == 3


def test_a_number_is_never_given_out_twice_even_when_its_row_is_gone(store: Opened) -> None:
    seen: set[int] = set()
    for _ in range(3):
        created = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a"), sample(JOBS, name="b")]))
        numbers = {row.number for row in created}
        assert len(numbers) == 2
        assert not numbers & seen
        seen |= numbers
        store.write(lambda tx: tx.remove(JOBS, [(row.number,) for row in created]))  # noqa: B023 - run before the next


@pytest.mark.spec("D5")
def test_of_many_who_add_the_same_names_each_name_has_one_winner(engine: Engine) -> None:
    names = [f"job {number:03}" for number in range(40)]

    async def race() -> list[list[str]]:
        async with engine:
            rows = [sample(JOBS, name=name) for name in names]
            orders = [rows[start:] + rows[:start] for start in range(0, 40, 2)]
            created = await asyncio.gather(*(engine.write(partial(add, JOBS, order)) for order in orders))
            return [[row.name for row in mine] for mine in created]

    won = asyncio.run(race())
    assert sorted(name for mine in won for name in mine) == names


# -- put, save, remove ------------------------------------------------------------------------------------------------


def test_put_writes_over_what_is_there(store: Opened) -> None:
    slots = [sample(SLOTS, job=job, ref=job, fence=1) for job in range(5)]
    store.write(lambda tx: tx.put(SLOTS, slots))
    changed = [sample(SLOTS, job=3, fence=2), sample(SLOTS, job=9, ref=9)]
    store.write(lambda tx: tx.put(SLOTS, changed))
    assert everything(store, SLOTS) == [slots[0], slots[1], slots[2], changed[0], slots[4], changed[1]]


def test_put_can_take_a_value_away_and_bring_one(store: Opened) -> None:
    both = [sample(SLOTS, job=1, ref=5), sample(SLOTS, job=2, ref=None)]
    store.write(lambda tx: tx.put(SLOTS, both))
    swapped = [sample(SLOTS, job=1, ref=None), sample(SLOTS, job=2, ref=7)]
    store.write(lambda tx: tx.put(SLOTS, swapped))
    assert everything(store, SLOTS) == swapped


def test_rows_that_are_nothing_but_a_key_can_be_put_again(store: Opened) -> None:
    rows = [sample(WAITING, due_at=1, ref=1), sample(WAITING, due_at=1, ref=2)]
    store.write(lambda tx: tx.put(WAITING, rows))
    store.write(lambda tx: tx.put(WAITING, rows))
    store.write(lambda tx: tx.put(LIMITS, [sample(LIMITS, name="api")]))
    assert everything(store, WAITING) == rows
    assert everything(store, LIMITS) == [sample(LIMITS, name="api")]


def test_save_changes_the_named_columns(store: Opened) -> None:
    created = store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(n, owner=3, reason="old") for n in range(300)]))
    changed = [
        msgspec.structs.replace(
            row,
            status=OccurrenceState.RUNNING,
            is_recovery=True,
            started_at=row.instant if row.instant % 2 else None,
            owner=None,
        )
        for row in created
    ]
    columns = ["status", "is_recovery", "started_at", "owner"]

    def work(tx: Transaction) -> None:
        tx.lock(OCCURRENCES, [(row.ref,) for row in changed])
        tx.save(OCCURRENCES, changed, columns)

    store.write(work)
    assert everything(store, OCCURRENCES) == changed


def test_save_of_part_of_a_composite_key_table_leaves_its_neighbours(store: Opened) -> None:
    rows = active((1, 1), (1, 2), (2, 1))
    store.write(lambda tx: tx.add(ACTIVE, rows))
    changed = sample(ACTIVE, job=1, ref=2, due_at=5)

    def work(tx: Transaction) -> None:
        tx.lock(ACTIVE, [(1, 2)])
        tx.save(ACTIVE, [changed], ["due_at"])

    store.write(work)
    assert everything(store, ACTIVE) == [rows[0], changed, rows[2]]


@pytest.mark.parametrize(
    ("prefixes", "left"),
    [
        ([(1,)], [(2, 1), (2, 2), (3, 1)]),
        ([(1, 2), (2, 1), (9, 9)], [(1, 1), (1, 10), (2, 2), (3, 1)]),
        ([(2,), (1, 1), (2, 2)], [(1, 2), (1, 10), (3, 1)]),
        ([()], []),
        ([(1, 1), ()], []),
        ([], [(1, 1), (1, 2), (1, 10), (2, 1), (2, 2), (3, 1)]),
    ],
)
def test_remove_deletes_everything_below_its_prefixes(
    store: Opened, prefixes: list[Values], left: list[tuple[int, int]]
) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active((1, 1), (1, 2), (1, 10), (2, 1), (2, 2), (3, 1))))
    store.write(lambda tx: tx.remove(ACTIVE, prefixes))
    assert keys_of(ACTIVE, everything(store, ACTIVE)) == left


def test_a_prefix_of_text_is_a_whole_column_and_not_the_beginning_of_one(store: Opened) -> None:
    rows = [sample(SHARES, name=name, ref=1) for name in ("a", "ab", "a b", "b")]
    store.write(lambda tx: tx.add(SHARES, rows))
    store.write(lambda tx: tx.remove(SHARES, [("a",)]))
    assert [row.name for row in everything(store, SHARES)] == ["a b", "ab", "b"]


def test_a_removed_rows_name_is_free_again(store: Opened) -> None:
    (created,) = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a")]))
    store.write(lambda tx: tx.remove(JOBS, [(created.number,)]))
    assert store.read(lambda tx: tx.named(JOBS, [("a",)])) == {}
    assert len(store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="a")]))) == 1


# -- scan and names ---------------------------------------------------------------------------------------------------

KEYS = [(1, 1), (1, 2), (1, 10), (2, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize(
    ("prefix", "low", "high", "expected"),
    [
        ((), (), (), KEYS),
        ((1,), (), (), KEYS[:3]),
        ((4,), (), (), []),
        ((1, 2), (), (), [(1, 2)]),
        ((), (2,), (), KEYS[3:]),
        ((), (), (2,), KEYS[:3]),
        ((), (1, 2), (2, 2), KEYS[1:4]),
        ((), (1, 3), (3,), KEYS[2:5]),
        ((), (2,), (2, 2), [(2, 1)]),
        ((1,), (2,), (), KEYS[1:3]),
        ((1,), (), (10,), KEYS[:2]),
        ((1,), (2,), (10,), [(1, 2)]),
        ((), (3,), (1,), []),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [0, 2, 100])
def test_a_scan_goes_along_the_key(
    store: Opened,
    prefix: Values,
    low: Values,
    high: Values,
    expected: list[tuple[int, int]],
    newest_first: bool,
    limit: int,
) -> None:
    store.write(lambda tx: tx.add(ACTIVE, active(*reversed(KEYS))))
    found = store.read(lambda tx: tx.scan(ACTIVE, prefix, low=low, high=high, limit=limit, newest_first=newest_first))
    in_order = expected[::-1] if newest_first else expected
    assert found == active(*in_order[:limit])


def test_numbers_are_in_order_whatever_their_sign_and_length(store: Opened) -> None:
    numbers = [-(2**63), -(2**40), -256, -255, -1, 0, 1, 255, 256, 2**40, 2**63 - 1]
    store.write(lambda tx: tx.add(WAITING, [sample(WAITING, due_at=number, ref=1) for number in reversed(numbers)]))
    assert [row.due_at for row in everything(store, WAITING)] == numbers
    some = store.read(lambda tx: tx.scan(WAITING, low=(-255,), high=(256,), limit=100))
    assert [row.due_at for row in some] == numbers[3:8]


def test_text_is_in_the_order_of_its_code_points(store: Opened) -> None:
    names = ["", " ", "A", "Z", "a", "a b", "aa", "b", "ä", "ﬀ", "🗝"]
    store.write(lambda tx: tx.add(LIMITS, [sample(LIMITS, name=name) for name in reversed(names)]))
    assert [row.name for row in everything(store, LIMITS)] == names == sorted(names)
    some = store.read(lambda tx: tx.scan(LIMITS, low=("a",), high=("b",), limit=100))
    assert [row.name for row in some] == ["a", "a b", "aa"]


@pytest.mark.parametrize(
    ("prefix", "low", "high", "expected"),
    [
        (("s",), (), (), [1, 2, 3, 10]),
        (("s",), (2,), (10,), [2, 3]),
        (("t",), (), (), [1]),
        ((), ("s", 3), (), [3, 10, 1]),
        ((), (), ("t",), [1, 2, 3, 10]),
    ],
)
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_scan_goes_along_the_name(
    store: Opened, prefix: Values, low: Values, high: Values, expected: list[int], newest_first: bool
) -> None:
    rows = [event("s", "z", 1), event("s", "a", 10), event("s", "m", 3), event("s", "b", 2), event("t", "b", 1)]
    store.write(lambda tx: tx.add(EVENTS, rows))
    found = store.read(
        lambda tx: tx.scan(EVENTS, prefix, low=low, high=high, limit=10, newest_first=newest_first, by_name=True)
    )
    assert [row.sequence for row in found] == (expected[::-1] if newest_first else expected)


def test_a_scan_of_three_columns_below_one(store: Opened) -> None:
    refs = [row.ref for row in store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(1), occurrence(2)]))]
    rows = [
        sample(TRANSITIONS, ref=ref, sequence=sequence, line=line, at=sequence)
        for ref in refs
        for sequence in (0, 1, 2)
        for line in (0, 1)
    ]
    store.write(lambda tx: tx.add(TRANSITIONS, rows[::-1]))
    of_first = store.read(lambda tx: tx.scan(TRANSITIONS, (refs[0],), low=(0, 1), high=(2, 1), limit=10))
    assert of_first == rows[1:5]
    last = store.read(lambda tx: tx.scan(TRANSITIONS, (refs[1],), limit=1, newest_first=True))
    assert last == [rows[-1]]
    store.write(lambda tx: tx.remove(TRANSITIONS, [(refs[0],)]))
    assert everything(store, TRANSITIONS) == rows[6:]


def test_names_in_a_range_come_without_their_rows(store: Opened) -> None:
    store.write(lambda tx: tx.add(OCCURRENCES, [occurrence(n, job) for n in range(5) for job in (1, 2)]))
    names = store.read(lambda tx: tx.names(OCCURRENCES, low=(1, 2), high=(3,), limit=100))
    assert names == [(1, 2, "scheduled", ""), (2, 1, "scheduled", ""), (2, 2, "scheduled", "")]
    assert all(type(name) is tuple and name[2] is Kind.SCHEDULED for name in names)
    assert store.read(lambda tx: tx.names(OCCURRENCES, low=(), high=(), limit=3)) == [
        (0, 1, "scheduled", ""),
        (0, 2, "scheduled", ""),
        (1, 1, "scheduled", ""),
    ]


# -- together, or not at all ------------------------------------------------------------------------------------------


class Refused(Exception):
    """What a work raises to be undone."""


def test_nothing_stands_of_work_that_raises(store: Opened) -> None:
    before = active((1, 1), (1, 2), (2, 1))
    store.write(lambda tx: tx.add(ACTIVE, before))
    (job,) = store.write(lambda tx: tx.add(JOBS, [sample(JOBS, name="kept")]))

    def work(tx: Transaction) -> None:
        tx.add(ACTIVE, active((3, 1)))
        tx.put(ACTIVE, [sample(ACTIVE, job=1, ref=1, due_at=99)])
        tx.lock(ACTIVE, [(1, 2)])
        tx.save(ACTIVE, [sample(ACTIVE, job=1, ref=2, due_at=99)], ["due_at"])
        tx.remove(ACTIVE, [(2,)])
        tx.remove(JOBS, [(job.number,)])
        tx.add(JOBS, [sample(JOBS, name="new")])
        tx.tell(["news"])
        raise Refused

    with pytest.raises(Refused):
        store.write(work)
    assert everything(store, ACTIVE) == before
    assert everything(store, JOBS) == [job]
    assert everything(store, SIGNALS) == []
    assert store.read(lambda tx: tx.named(JOBS, [("kept",), ("new",)])) == {("kept",): job}


def test_work_that_raises_takes_nothing_of_its_neighbours_with_it(engine: Engine) -> None:
    def work(number: int) -> Any:
        def add(tx: Transaction) -> int:
            tx.add(ACTIVE, active((number, 1)))
            if number % 3 == 0:
                raise Refused(number)
            return number

        return add

    async def all_at_once() -> tuple[list[Any], list[Any]]:
        async with engine:
            answers = await asyncio.gather(*(engine.write(work(n)) for n in range(30)), return_exceptions=True)
            return list(answers), await engine.read(lambda tx: tx.scan(ACTIVE, limit=100))

    answers, rows = asyncio.run(all_at_once())
    good = [number for number in range(30) if number % 3]
    assert [row.job for row in rows] == good
    assert [answer for answer in answers if isinstance(answer, int)] == good
    assert sorted(error.args[0] for error in answers if isinstance(error, Refused)) == list(range(0, 30, 3))


def test_two_who_change_the_same_row_do_not_lose_a_change(engine: Engine) -> None:
    def raise_it(tx: Transaction) -> None:
        (slot,) = tx.lock(SLOTS, [(1,)]).values()
        tx.save(SLOTS, [msgspec.structs.replace(slot, fence=slot.fence + 1)], ["fence"])

    async def many() -> int:
        async with engine:
            await engine.write(lambda tx: tx.put(SLOTS, [sample(SLOTS, job=1)]))
            await asyncio.gather(*(engine.write(raise_it) for _ in range(40)))
            (slot,) = await engine.read(lambda tx: tx.scan(SLOTS, limit=2))
            return slot.fence

    assert asyncio.run(many()) == 40


@pytest.mark.parametrize(
    "row",
    [
        sample(ENTRIES, revision=1, request="lone \ud800 surrogate"),
        sample(ENTRIES, revision=1, effective_from=2**63),
        sample(ENTRIES, revision=1, effective_from=-(2**63) - 1),
    ],
    ids=["surrogate", "too large", "too small"],
)
def test_a_value_that_cannot_be_kept_fails_its_own_work_alone(engine: Engine, row: Any) -> None:
    if isinstance(engine, MemoryEngine):
        pytest.skip("memory keeps whatever Python does")

    async def together() -> tuple[list[Any], list[Any]]:
        async with engine:
            works = [
                lambda tx: tx.put(ACTIVE, active((1, 1))),
                lambda tx: (tx.put(ACTIVE, active((2, 1))), tx.put(ENTRIES, [row])),
                lambda tx: tx.put(ACTIVE, active((3, 1))),
            ]
            answers = await asyncio.gather(*map(engine.write, works), return_exceptions=True)
            return list(answers), await engine.read(lambda tx: tx.scan(ACTIVE, limit=10))

    answers, rows = asyncio.run(together())
    assert [type(answer) for answer in answers] == [type(None), Unwritable, type(None)]
    assert keys_of(ACTIVE, rows) == [(1, 1), (3, 1)]


# -- tell and watch ---------------------------------------------------------------------------------------------------


def test_telling_counts_up_its_topics(store: Opened) -> None:
    store.write(lambda tx: tx.tell(["b", "a"]))
    store.write(lambda tx: tx.tell(["a"]))
    assert [(row.topic, row.count) for row in everything(store, SIGNALS)] == [("a", 2), ("b", 1)]


def test_who_watches_hears_what_was_ever_told_and_then_what_is_new(engine: Engine) -> None:
    async def listen() -> list[frozenset[str]]:
        async with engine:
            await engine.write(lambda tx: tx.tell(["old", "older"]))
            heard = []
            async for topics in engine.watch():
                heard.append(topics)
                if len(heard) == 1:
                    await engine.write(lambda tx: tx.tell(["old"]))
                elif len(heard) == 2:
                    await engine.write(lambda tx: tx.tell(["new"]))
                else:
                    break
            return heard

    assert asyncio.run(listen()) == [{"old", "older"}, {"old"}, {"new"}]


# -- opening and closing ----------------------------------------------------------------------------------------------


def test_closing_finishes_what_was_asked_and_can_be_done_twice(engine: Engine) -> None:
    async def close_at_once() -> list[Any]:
        await engine.open()
        writes = [asyncio.ensure_future(engine.write(partial(add, ACTIVE, active((n, 1))))) for n in range(9)]
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        return list(await asyncio.gather(*writes))

    assert [len(created) for created in asyncio.run(close_at_once())] == [1] * 9


def test_a_caller_who_is_cancelled_leaves_the_store_as_good_as_it_was(engine: Engine) -> None:
    async def cancel_some() -> int:
        async with engine:
            writes = [asyncio.ensure_future(engine.write(partial(add, ACTIVE, active((n, 1))))) for n in range(20)]
            await asyncio.sleep(0)
            for write in writes[::2]:
                write.cancel()
            done = await asyncio.gather(*writes, return_exceptions=True)
            assert all(isinstance(created, list) for created in done[1::2])
            return len(await engine.write(lambda tx: tx.add(ACTIVE, active((99, 1)))))

    assert asyncio.run(cancel_some()) == 1
