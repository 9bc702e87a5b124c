"""The stored name of a function: `package.module:function` (D9).

A script is called `__main__` while it runs, but has the name of its file when another program imports it or
`itinerary up` starts it. Both must declare the same job. So a function of the main module is named after the module
that an import would create.

Only a function that its module holds under its own name can be found by that name. The program itself creates closures,
lambdas, `functools.partial` objects, bound methods and callable objects, and a factory creates many with one name. The
name of such a function also contains the place of its declaration, which is the same on every node and after every
restart:

    reports:daily                                  a function of a module
    sync:make.<locals>.pull@sync-eu/pull           the result of make("eu"): the task `pull` of the job `sync-eu`
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
    """Return the name to register a function under. `where` is the place of the declaration: `job/task`."""
    named = _named_part(function)
    module, qualname = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if module == _MAIN:
        module = _main_module() or module
    return f"{module}:{qualname}" if is_shared(function) else f"{module}:{qualname}@{where}"


def is_shared(function: Callable[..., Any]) -> bool:
    """True if the name of a function identifies it wherever it is declared: the program did not create it."""
    qualname = getattr(function, "__qualname__", None)
    if isinstance(function, functools.partial) or not isinstance(qualname, str) or "<" in qualname:
        return False
    owner = getattr(function, "__self__", None)
    return owner is None or isinstance(owner, type | ModuleType)


def title_of(function: Callable[..., Any]) -> str | None:
    """Return the name of a function for people; None if it has none, like a lambda."""
    title = getattr(_without_arguments(function), "__name__", None)
    return title if isinstance(title, str) and title != _LAMBDA else None


def described(function: Callable[..., Any]) -> str:
    """Return a description of a function without a name, for an error."""
    return "a lambda" if hasattr(function, "__name__") else f"an object of class {type(function).__name__}"


def _named_part(function: Callable[..., Any]) -> object:
    """Return the part of a function that has a name: the target of a partial, or the class of a callable object."""
    inner = _without_arguments(function)
    return inner if hasattr(inner, "__qualname__") else type(inner)


def _without_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def main_module_paths() -> dict[str, str]:
    """Return the stored name and the file of the main module, from which worker processes load it."""
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
