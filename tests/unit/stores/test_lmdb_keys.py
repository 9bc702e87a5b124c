"""Keys sort as their values do, are told apart as they are, and fit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from itinerary.errors import UnwritableError
from itinerary.stores.lmdb.keys import HEAD, KEY_MAX, Path
from itinerary.stores.lmdb.layout import HOME, PLACES, REF
from itinerary.stores.tables import ALL, ATTEMPTS, OCCURRENCES, TASKS, TRANSITIONS, Table, Values


class Pair(msgspec.Struct):
    """A row with all that a key can be made of."""

    number: int
    text: str
    other: str


PATH = Path("word/{number}/{text}/end/{other}", Table("pairs", Pair, key=("number", "text", "other")))
LONGEST = "\N{KEY}" * 255

numbers = st.integers(-(2**63), 2**63 - 1)
short = st.text(st.characters(codec="utf-8"), max_size=HEAD // 4)
heads = st.sampled_from(
    ["x" * (HEAD - 1), "x" * HEAD, "x" * (HEAD + 1), "\N{KEY}" * (HEAD // 4), "x" * (HEAD - 1) + "\0"]
)
texts = short | st.builds(lambda head, tail: head + tail, heads, st.text(st.sampled_from("\0ax\N{KEY}"), max_size=4))
triples = st.tuples(numbers | st.sampled_from([0, 1]), texts, texts)


def is_long(text: str) -> bool:
    return len(text.encode().replace(b"\0", b"\0\xff")) > HEAD


@given(triples)
def test_values_can_be_read_back_from_a_key_unless_a_text_is_too_long(values: Values) -> None:
    expected = None if any(map(is_long, values[1:])) else values
    assert PATH.values(PATH.key(values)) == expected


@given(triples, triples)
@example((0, "a", ""), (0, "a\0", ""))
@example((0, "a", "b"), (0, "ab", ""))
@example((-1, "", ""), (0, "", ""))
@example((0, "x" * HEAD, "z"), (0, "x" * HEAD + "a", ""))
@example((0, "x" * (HEAD - 1), "z"), (0, "x" * (HEAD - 1) + "\0a", ""))
def test_keys_sort_as_their_values_do_unless_they_tie(one: Values, other: Values) -> None:
    first, second = PATH.key(one), PATH.key(other)
    assert (first == second) == (one == other)
    ties = [PATH.tie(key, 0, len(b"word/")) for key in (first, second)]
    if ties[0] is None or ties[0] != ties[1]:
        assert (first < second) == (one < other)


@given(st.lists(triples, min_size=1, max_size=8), st.data())
def test_what_lies_between_two_bounds_is_what_lies_between_the_values(rows: list[Values], data: st.DataObject) -> None:
    anchor = data.draw(st.sampled_from(rows))
    place = data.draw(st.integers(0, 2))
    prefix, rest = anchor[:place], anchor[place:]
    low = rest[: data.draw(st.integers(0, len(rest)))]
    high = data.draw(st.sampled_from(rows))[place : data.draw(st.integers(place, 3))]
    start, stop = PATH.bounds(prefix, low, high)
    for row in rows:
        is_asked = row[:place] == prefix and low <= row[place:] and (not high or row[place:][: len(high)] < high)
        key = PATH.key(row)
        if PATH.tie(key, place, len(PATH.key(prefix))) is None:
            assert (start <= key < stop) == is_asked
        elif is_asked:
            assert start <= key < stop


@pytest.mark.spec("D4")
@pytest.mark.parametrize("table", ALL, ids=repr)
def test_the_longest_key_of_every_table_fits(table: Table[Any]) -> None:
    place = PLACES[table.title]
    home = HOME.key((2**63 - 1, 2**63 - 1)) if place.is_below else b""
    types = {column.name: column.type for column in table.columns}
    for path in filter(None, (place.path, place.names)):
        values = tuple(LONGEST if types[field] is str else 2**63 - 1 for field in path.fields)
        assert len(home + path.key(values)) <= KEY_MAX


@pytest.mark.spec("D4")
def test_the_keys_of_an_occurrence_are_one_subtree_with_words_that_can_be_read() -> None:
    home = HOME.key((7, 42))
    assert home == b"job/%b/occurrence/%b" % (_number(7), _number(42))
    assert home.startswith(PLACES["jobs"].path.key((7,)) + b"/")
    assert home + PLACES[TASKS.title].path.key((1,)) == home + b"/task/%b/run" % _number(1)
    attempt = PLACES[ATTEMPTS.title].path.key((1, 3))
    assert attempt == b"/task/%b/run/attempt/%b" % (_number(1), _number(3))
    assert attempt.startswith(PLACES[TASKS.title].path.key((1,)) + b"/")
    assert PLACES[TRANSITIONS.title].path.key((5, 0)) == b"/transition/%b/%b" % (_number(5), _number(0))
    assert REF.key((42,)) == b"ref/%b" % _number(42)


def test_tables_that_share_a_subtree_have_keys_of_different_lengths() -> None:
    below = [PLACES[table.title].path.size for table in (OCCURRENCES, TASKS, ATTEMPTS, TRANSITIONS)]
    assert None not in below
    assert len(set(below)) == len(below)


@pytest.mark.parametrize("values", [(2**63, "", ""), (-(2**63) - 1, "", ""), (0, "\ud800", ""), (0, "", "a\udfff")])
def test_what_cannot_stand_in_a_key_is_refused(values: Values) -> None:
    with pytest.raises(UnwritableError, match="cannot stand in a key word/"):
        PATH.key(values)
    with pytest.raises(UnwritableError, match="cannot stand in a key word/"):
        PATH.bounds((), values, ())


def _number(value: int) -> bytes:
    return (value + 2**63).to_bytes(8)
