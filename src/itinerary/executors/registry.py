"""Functions by name: the registered ones, and those that may be imported.

A definition holds `package.module:function` and never code (D9). Decorators register functions under that name. An
unregistered function is imported, and only from modules that the operator allows (Q3):

    a module with a registered function              `etl.reports`, because `etl.reports:daily` is registered
    a prefix in the configuration of the node        `etl` allows `etl`, `etl.reports`, `etl.reports.daily`

A function that the program creates in a factory is registered under its name and its place of declaration, such as
`sync:make.<locals>.pull@sync-eu/pull`. No import finds it, so only a program that declares it can run it.

A definition therefore cannot name `os:system`, nor reach it through a module that imports `os` (see `resolve`). An
import runs code and may take long. The executor of a function imports it, never the reader of a definition.

A definition that arrives over HTTP may name only registered functions: those that the program declares, and those in
its job file. The registry keeps these apart from functions that were only imported.
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
"""The separator between a name and the place of declaration."""
_NAME_MAX: Final = 512
_PLACE_MAX: Final = 600
"""The limit for a place, which has the name of a job and the name of a task."""


class Registry:
    """The functions that definitions may name. Reading is safe from any thread."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._prefixes = tuple(_prefix(one) for one in allowed)
        self._modules: dict[str, None] = {}
        self._functions: dict[str, Function] = {}
        self._registered: dict[str, None] = {}

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes in the configuration of the node."""
        return self._prefixes

    @property
    def allowed(self) -> tuple[str, ...]:
        """The modules that may be imported: the prefixes, and the modules with registered functions."""
        return (*self._prefixes, *self._modules)

    def register(self, function: Callable[..., Any], name: str | None = None) -> str:
        """Register a function under its `module:qualname`, or under another name of that form.

        Returns:
            The name.

        Raises:
            ConfigError: If another function has that name.
        """
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
        """Register a function of Itinerary, without its module, and not for requests. Return the name."""
        self._functions[name] = function_of(name, function)
        return name

    def register_name(self, name: str) -> None:
        """Register a name from a job file without an import. Raises ConfigError if the name is not allowed."""
        self._registered[self.check(name)] = None

    def is_registered(self, name: str) -> bool:
        """True if the program declares this function, or its job file names it. Requests may then name it too."""
        return name in self._registered

    def known(self, name: str) -> Function | None:
        """Return a function that is registered or was imported before; otherwise None. Imports nothing."""
        return self._functions.get(name)

    def check(self, name: object) -> str:
        """Return the name if a definition may use it; otherwise raise ConfigError. Imports nothing."""
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
        """Return the function of that name, and import it if necessary.

        Raises:
            ConfigError: If the name is not allowed, or names no function. An error of the module itself is not wrapped.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._imported(self.check(name))
            self._functions[name] = function
        return function

    def allows(self, module: str) -> bool:
        """True if definitions may name functions of a module."""
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
    """Return the module and the qualified name in `package.module:function`. Raises ConfigError for other text."""
    path, _, place = name.partition(_PLACE)
    module, colon, qualname = path.partition(":")
    is_short = len(path) <= _NAME_MAX and len(place) <= _PLACE_MAX
    if not is_short or not colon or not _MODULE.fullmatch(module) or not _QUALNAME.fullmatch(qualname):
        raise ConfigError(f"python: {shown(name)} is not a name; write 'package.module:function'")
    return module, qualname


def is_importable(name: str) -> bool:
    """True if an import of the module can find the function, in another process or in a pod."""
    return "<" not in name and _PLACE not in name


def _prefix(name: object) -> str:
    if not isinstance(name, str) or not _MODULE.fullmatch(name):
        raise ConfigError(f"allowed modules: {shown(name)} is not a module; write 'package' or 'package.module'")
    return name
