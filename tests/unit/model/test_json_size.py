"""A value is measured before it is encoded, at a cost that does not grow with it."""

from __future__ import annotations

import enum
import tracemalloc
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import RecordError
from itinerary.model.codec import RESULT_MAX, result_json
from itinerary.model.json_size import DEPTH_MAX, TooDeep, json_size_at_least

MEGABYTE = 1 << 20

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=50)
    | st.binary(max_size=50)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes()
    | st.uuids()
)
values = st.recursive(
    leaves,
    lambda inside: (
        st.lists(inside, max_size=6)
        | st.tuples(inside, inside)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=9) | st.integers(), inside)
    ),
    max_leaves=40,
)


class Colour(enum.Enum):
    RED = "red"


class Struct(msgspec.Struct, omit_defaults=True):
    first: Any = "a default that is rather long"
    second: Any = msgspec.UNSET
    third: list[Any] = msgspec.field(default_factory=list)


@dataclass
class Point:
    x: Any = 1
    _y: Any = field(default=2)


Pair = namedtuple("Pair", "left right")


@given(values)
def test_what_is_measured_is_never_more_than_what_is_encoded(value: object) -> None:
    assert json_size_at_least(value, 1 << 60) <= len(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        {Colour.RED: Colour.RED},
        Struct(),
        Struct(first=Point()),
        Struct(second=3, third=[1]),
        Point(Pair(1, "two")),
        OrderedDict(a=[Point(), Struct()]),
        {1, 2, 3},
        frozenset("abc"),
        bytearray(b"abcd"),
        memoryview(b"abcde"),
        msgspec.Raw(b"[1,2]"),
        10**40,
        -(2**64),
        Decimal("1." + "5" * 300),
        [],
        {},
        "",
    ],
)
def test_other_values_are_not_overestimated_either(value: object) -> None:
    assert 1 <= json_size_at_least(value, 1 << 60) <= len(msgspec.json.encode(value))


class Recording(list[Any]):
    """A list whose own methods say that they were called."""

    calls = 0

    def __iter__(self) -> Iterator[Any]:
        type(self).calls += 1
        return super().__iter__()

    def __len__(self) -> int:
        type(self).calls += 1
        return 0


class Watched:
    """A dataclass by its looks, which counts how often a field of it is read."""

    __dataclass_fields__: ClassVar[dict[str, None]] = {"x": None}
    reads = 0

    @property
    def x(self) -> int:
        type(self).reads += 1
        return 1


@pytest.mark.spec("X10", "result")
@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * (200 * MEGABYTE),
        lambda: b"x" * (200 * MEGABYTE),
        lambda: bytearray(100 * MEGABYTE),
        lambda: [None] * 20_000_000,
        lambda: (0,) * 20_000_000,
        lambda: {"deep": [{"deeper": ["y" * (100 * MEGABYTE)]}]},
        lambda: {"k" * (50 * MEGABYTE): 1},
        lambda: dict.fromkeys(range(1_000_000)),
        lambda: Point("z" * (50 * MEGABYTE)),
        lambda: Struct(first=[0] * 10_000_000),
        lambda: 1 << (8 * 10_000_000),
        lambda: [["a" * 1_000] * 1_000] * 100_000,
        lambda: Recording([1]) * 10_000_000,
    ],
)
def test_a_huge_value_is_refused_before_anything_of_it_is_copied(make: Callable[[], object]) -> None:
    value = make()
    tracemalloc.start()
    try:
        with pytest.raises(RecordError, match=r"at least \d+ bytes of JSON; it must be under 65536"):
            result_json(value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_the_work_is_bounded_by_the_limit_and_not_by_the_value() -> None:
    Watched.reads = 0
    nested: object = [Watched()]
    for _ in range(10):
        nested = [nested] * 10  # ten thousand million of them, all told
    assert json_size_at_least(nested, RESULT_MAX) >= RESULT_MAX
    assert Watched.reads <= RESULT_MAX


def test_methods_that_a_subclass_overrides_are_not_called() -> None:
    Recording.calls = 0
    assert json_size_at_least(Recording([1, 2, 3]), RESULT_MAX) == len("[1,2,3]")
    assert Recording.calls == 0


def test_the_refusal_says_how_large_the_value_is_at_least() -> None:
    with pytest.raises(RecordError, match="at least 10000002 bytes"):
        result_json("x" * 10_000_000)
    with pytest.raises(RecordError, match="at least 20000001 bytes"):
        result_json([1] * 10_000_000)


@pytest.mark.parametrize("make", [lambda loop: loop.append(loop), lambda loop: loop.extend([1, {"a": loop}])])
def test_a_value_that_contains_itself_is_no_json(make: Callable[[list[Any]], None]) -> None:
    loop: list[Any] = []
    make(loop)
    with pytest.raises(TooDeep):
        json_size_at_least(loop, 1 << 60)
    with pytest.raises(RecordError, match=f"more than {DEPTH_MAX} deep, or contains itself"):
        result_json(loop)


def test_a_value_that_is_nested_deeply_is_measured_without_recursion() -> None:
    deep: list[Any] = []
    for _ in range(1_000_000):
        deep = [deep]
    with pytest.raises(RecordError, match="deep"):
        result_json(deep)
    while deep:  # taken apart by hand: the interpreter would do it by recursion
        (deep,) = deep
