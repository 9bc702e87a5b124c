"""A function as a task: whether it is a coroutine function, and whether it takes the context.

Both are decided once, from its signature, when the function is registered or imported. A task takes `ctx` or nothing:

    async def report(ctx): ...        def report(ctx): ...        def report(): ...        def report(limit=10): ...

A function that requires another argument is refused at once, and not first at its due instant.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

import msgspec

from itinerary.errors import ConfigError

__all__ = ["Function", "function_of"]

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_GATHERING: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT: Final = "ctx"


class Function(msgspec.Struct, frozen=True):
    """A function that can be a task."""

    name: str
    """The name, `package.module:function`."""
    call: Callable[..., Any]
    is_coroutine: bool
    takes_context: bool


def function_of(name: str, found: object) -> Function:
    """Return the task function for an object. Raises ConfigError if the object cannot be a task."""
    if not callable(found):
        raise ConfigError(f"python: {name} is a {type(found).__name__}, not a function")
    if isinstance(found, type):
        raise ConfigError(f"python: {name} is a class; name a function, or a method of an object")
    called = found if inspect.isroutine(found) else _call_of(found)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigError(
            f"python: {name} is a generator, which does nothing when it is called; return in place of yield"
        )
    return Function(name, found, inspect.iscoroutinefunction(called), _takes_context(name, found))


def _call_of(found: object) -> object:
    """Return the wrapped function of a `functools.partial`, or the `__call__` of any other object."""
    wrapped = getattr(found, "func", None)
    return wrapped if callable(wrapped) else type(found).__call__


def _takes_context(name: str, found: Callable[..., Any]) -> bool:
    try:
        # `update_wrapper` can give a partial the signature of its function, but some arguments are already set.
        signature = inspect.signature(found, follow_wrapped=not isinstance(found, functools.partial))
        parameters = [one for one in signature.parameters.values() if one.kind not in _GATHERING]
    except (TypeError, ValueError):
        raise ConfigError(
            f"python: the signature of {name} cannot be read, as of many functions in C; wrap it in one of your own"
        ) from None
    required = [one for one in parameters if one.default is inspect.Parameter.empty]
    first = next((one for one in parameters if one.kind in _POSITIONAL), None)
    if len(required) > 1 or (required and required[0] is not first):
        wanted = ", ".join(one.name for one in required)
        raise ConfigError(f"python: {name} wants {wanted}; a task takes {_CONTEXT}, or no argument")
    return bool(required) or (first is not None and first.name == _CONTEXT)
