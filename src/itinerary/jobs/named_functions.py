"""Functions that a job file names for a record scheduler: imported at the first call, and not when the file is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from itinerary.executors.registry import Registry

__all__ = ["NamedFunction"]


class NamedFunction:
    """A function of one argument, by its name `package.module:function`."""

    def __init__(self, registry: Registry, name: str) -> None:
        self._registry, self._name = registry, name
        self.__qualname__ = name

    def __repr__(self) -> str:
        return f"<NamedFunction {self._name}>"

    def find(self) -> Callable[[Any], Any]:
        """Import the function, or return the one that was found before. Raises ConfigError, or what its module raises.

        An import may take long, so call this in a thread.
        """
        return self._registry.find(self._name).call

    def __call__(self, argument: Any) -> Any:
        """Call the function. Whoever calls coroutine functions elsewhere asks `find` first."""
        return self.find()(argument)
