"""The name by which a function is stored: `package.module:function` (D9).

A program that is run as a script is called `__main__` while it runs, and by its file name when somebody imports it, or
starts it with `itinerary up`. A job must not become another job by that, so a function of the main module is named
after the module that it would be imported as.

Only a function that its module holds under its own name can be found by that name. A closure, a lambda, a
`functools.partial`, a method of an object or a callable object exists because the program made it, and a factory makes
many of one name. Such a function is named after the place that it is declared in, too, which is the same on every node
and after every restart:

    reports:daily                                  a function of a module
    sync:make.<locals>.pull@sync-eu/pull           what make("eu") returned: the task `pull` of the job `sync-eu`
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

__all__ = ["described", "is_shared", "main_module_paths", "stored_name", "title_of"]

_MAIN: Final = "__main__"
_LAMBDA: Final = "<lambda>"
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")


def stored_name(function: Callable[..., Any], where: str) -> str:
    """The name to register a function under. `where` is the place that it is declared in: `job/task`."""
    named = _named_part(function)
    module, qualname = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if module == _MAIN:
        module = _main_module() or module
    return f"{module}:{qualname}" if is_shared(function) else f"{module}:{qualname}@{where}"


def is_shared(function: Callable[..., Any]) -> bool:
    """True if a function has its name to itself, wherever it is declared: it was not made by the program."""
    qualname = getattr(function, "__qualname__", None)
    if isinstance(function, functools.partial) or not isinstance(qualname, str) or "<" in qualname:
        return False
    owner = getattr(function, "__self__", None)
    return owner is None or isinstance(owner, type | ModuleType)


def title_of(function: Callable[..., Any]) -> str | None:
    """The name that people know a function by; None if it has none, as a lambda."""
    title = getattr(_without_arguments(function), "__name__", None)
    return title if isinstance(title, str) and title != _LAMBDA else None


def described(function: Callable[..., Any]) -> str:
    """Say what a function without a name is, for an error."""
    return "a lambda" if hasattr(function, "__name__") else f"an object of class {type(function).__name__}"


def _named_part(function: Callable[..., Any]) -> object:
    """The part of a function that has a name: of a partial what it calls, of a callable object its class."""
    inner = _without_arguments(function)
    return inner if hasattr(inner, "__qualname__") else type(inner)


def _without_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def main_module_paths() -> dict[str, str]:
    """The main module under the name that its functions have, and its file: worker processes load it from there."""
    module, path = _main_module(), _main_file()
    return {} if module is None or path is None else {module: str(path)}


def _main_module() -> str | None:
    main = sys.modules.get(_MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in (None, _MAIN):
        return str(spec.name).removesuffix(f".{_MAIN}")
    path = _main_file()
    return path.stem if path is not None and path.stem != _MAIN and _IDENTIFIER.fullmatch(path.stem) else None


def _main_file() -> Path | None:
    found = getattr(sys.modules.get(_MAIN), "__file__", None)
    return None if found is None else Path(found).resolve()
