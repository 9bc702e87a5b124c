"""Which functions can be tasks, and how they are called."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.task_function import function_of

pytestmark = pytest.mark.spec("X10", "functions")


class Sender:
    async def send(self, ctx: Any) -> None: ...

    def __call__(self) -> None: ...


class AsyncSender:
    async def __call__(self, ctx: Any) -> None: ...


async def with_context(ctx: Any) -> None: ...


def any_name_will_do(context: Any) -> None: ...


def nothing() -> None: ...


def optional(limit: int = 10) -> None: ...


def optional_context(ctx: Any = None) -> None: ...


def gathering(*rest: Any, **named: Any) -> None: ...


def two(ctx: Any, limit: int) -> None: ...


def by_keyword(*, ctx: Any) -> None: ...


def positional(ctx: Any, /, limit: int = 3) -> None: ...


def generator(ctx: Any) -> Iterator[int]:
    yield 1


async def async_generator(ctx: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "is_coroutine", "takes_context"),
    [
        (with_context, True, True),
        (any_name_will_do, False, True),
        (nothing, False, False),
        (optional, False, False),
        (optional_context, False, True),
        (gathering, False, False),
        (positional, False, True),
        (Sender().send, True, True),
        (Sender(), False, False),
        (AsyncSender(), True, True),
        (functools.partial(two, limit=3), False, True),
        (functools.partial(with_context), True, True),
    ],
)
def test_a_function_takes_its_context_or_nothing(
    function: Callable[..., Any], is_coroutine: bool, takes_context: bool
) -> None:
    found = function_of("module:function", function)
    assert (found.is_coroutine, found.takes_context) == (is_coroutine, takes_context)
    assert found.call is function


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (two, "wants ctx, limit; a task takes ctx, or no argument"),
        (by_keyword, "wants ctx; a task takes ctx"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
        (Sender, "is a class"),
        (42, "is a int, not a function"),
        (dict.get, "wants"),
    ],
)
def test_a_function_that_wants_more_is_refused_before_it_is_due(function: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        function_of("module:function", function)
    assert str(caught.value).startswith("python: module:function ")
