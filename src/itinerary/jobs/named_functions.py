"""Functions that a job file names for a record scheduler. The first call imports them; reading the file does not."""

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
        """Import the function, or return the imported one. An import may be slow, so call this in a thread.

        Raises:
            ConfigError: There is no such function. An error of its module is raised as it is.
        """
        return self._registry.find(self._name).call

    def __call__(self, argument: Any) -> Any:
        """Call the function. A caller that must treat coroutine functions differently calls `find` first."""
        return self.find()(argument)
