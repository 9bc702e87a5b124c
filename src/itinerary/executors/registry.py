"""Code by its name: what is registered, and what may be imported.

A definition holds `package.module:function` and never code (D9). Decorators register functions under that name; what
is not registered is imported, and only from modules that the operator allows (Q3):

    a module of which something is registered        `etl.reports`, because `etl.reports:daily` is
    a prefix that the node was configured with       `etl` allows `etl`, `etl.reports`, `etl.reports.daily`

A function that the program made, as a factory does, is registered under its name and the place that it is declared in,
`sync:make.<locals>.pull@sync-eu/pull`. No import finds it, so only a program that declares it can run it.

So a definition cannot name `os:system`, nor reach it through a module that imports `os` (see `resolving`). An import
runs code and may take long: the executor that runs a function imports it, never the reader of a definition.

A definition that comes over HTTP names registered functions only: those that the program declares, and those that its
job file names. The registry counts these apart from what was merely imported.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from itinerary.errors import ConfigError
from itinerary.executors.resolve import resolve_function
from itinerary.executors.task_function import Function, function_of
from itinerary.model.text import shown

__all__ = ["Registry", "is_importable", "split_name"]

_MODULE: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_QUALNAME: Final = re.compile(r"(?:[^\W\d]\w*|<lambda>)(?:\.(?:[^\W\d]\w*|<locals>|<lambda>))*")
_DUNDER: Final = re.compile(r"(?<=[:.])__\w+__(?=\.|$)")
_PLACE: Final = "@"
"""Between a name and the place that a function is declared in."""
_NAME_MAX: Final = 512
_PLACE_MAX: Final = 600
"""A place has the name of a job and the name of a task."""


class Registry:
    """The functions that definitions may name. Reading it from any thread is safe."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._prefixes = tuple(_prefix(one) for one in allowed)
        self._modules: dict[str, None] = {}
        self._functions: dict[str, Function] = {}
        self._registered: dict[str, None] = {}

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes that the node was configured with."""
        return self._prefixes

    @property
    def allowed(self) -> tuple[str, ...]:
        """What may be imported: the prefixes, and the modules of which something is registered."""
        return (*self._prefixes, *self._modules)

    def register(self, function: Callable[..., Any], name: str | None = None) -> str:
        """Make a function known under its `module:qualname`, or another name of that form. Returns the name."""
        if name is None:
            name = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
        module, _ = split_name(name)
        before = self._functions.get(name)
        if before is not None and before.call is not function:
            raise ConfigError(
                f"python: {name} is registered already, and is another function; give one another name. In a loop, "
                "have a function make each of them: def make(region): … return sync, and task(make(region))"
            )
        self._functions[name] = function_of(name, function)
        self._modules[module] = self._registered[name] = None
        return name

    def register_internal(self, function: Callable[..., Any], name: str) -> str:
        """Make a function of Itinerary known, and neither its module nor its name to requests. Return the name."""
        self._functions[name] = function_of(name, function)
        return name

    def register_name(self, name: str) -> None:
        """Count a function as registered that a job file names; import nothing. Raise ConfigError if it may not."""
        self._registered[self.check(name)] = None

    def is_registered(self, name: str) -> bool:
        """True if the program declares this function, or its job file names it: then a request may name it, too."""
        return name in self._registered

    def known(self, name: str) -> Function | None:
        """The function, if it is registered or was found before; imports nothing."""
        return self._functions.get(name)

    def check(self, name: object) -> str:
        """The name itself, if it may be named here; imports nothing. Raises ConfigError."""
        if not isinstance(name, str):
            raise ConfigError(f"python: {shown(name)} is not a name; write 'package.module:function'")
        if name in self._functions:
            return name
        module, _ = split_name(name)
        if not self.allows(module):
            allowed = ", ".join(self.allowed) or "none"
            raise ConfigError(
                f"python: {shown(name)} is not registered, and its module may not be imported (allowed: {allowed}); "
                "register the function, or allow the module in the node's settings"
            )
        if not is_importable(name):
            raise ConfigError(
                f"python: {shown(name)} is made by a program, or is inside another function, where no import finds it; "
                "register it, or start a node with the program that declares it"
            )
        if (own := _DUNDER.search(name)) is not None:
            raise ConfigError(f"python: {shown(name)}: {own[0]} belongs to Python itself; name a function")
        return name

    def find(self, name: str) -> Function:
        """The function of that name, imported if need be. Raises ConfigError, or what its module raises."""
        function = self._functions.get(name)
        if function is None:
            function = self._imported(self.check(name))
            self._functions[name] = function
        return function

    def allows(self, module: str) -> bool:
        """Whether functions of a module may be named."""
        return module in self._modules or any(
            module == prefix or module.startswith(prefix + ".") for prefix in self._prefixes
        )

    def _imported(self, name: str) -> Function:
        module_name, qualname = split_name(name)
        try:
            found = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is not None and (module_name + ".").startswith(error.name + "."):
                raise ConfigError(f"python: {name}: there is no module {error.name} on this node") from None
            raise
        return function_of(name, resolve_function(name, found, qualname, self.allows))


def split_name(name: str) -> tuple[str, str]:
    """The module and the qualified name in `package.module:function`. Raises ConfigError."""
    path, _, place = name.partition(_PLACE)
    module, colon, qualname = path.partition(":")
    is_short = len(path) <= _NAME_MAX and len(place) <= _PLACE_MAX
    if not is_short or not colon or not _MODULE.fullmatch(module) or not _QUALNAME.fullmatch(qualname):
        raise ConfigError(f"python: {shown(name)} is not a name; write 'package.module:function'")
    return module, qualname


def is_importable(name: str) -> bool:
    """True if a function of that name may be found by importing its module: in another process, or in a pod."""
    return "<" not in name and _PLACE not in name


def _prefix(name: object) -> str:
    if not isinstance(name, str) or not _MODULE.fullmatch(name):
        raise ConfigError(f"allowed modules: {shown(name)} is not a module; write 'package' or 'package.module'")
    return name
