"""Walks along a key or a name, from here to there, in either direction."""

from __future__ import annotations

import pytest

from itinerary.model.occurrence import Kind
from itinerary.stores.tables import (
    ACTIVE,
    EVENTS,
    LIMITS,
    OCCURRENCES,
    TRANSITIONS,
    WAITING,
    Values,
)
from tests.contracts.stores.conftest import Opened
from tests.contracts.stores.samples import active, event, everything, occurrence, sample

pytestmark = pytest.mark.spec("D4")


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
