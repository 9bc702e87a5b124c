"""The name by which a function is stored: `package.module:function` (D9).

A program that is run as a script is called `__main__` while it runs, and by its file name when somebody imports it, or
starts it with `itinerary up`. A job must not become another job by that, so a function of the main module is named
after the module that it would be imported as.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

__all__ = ["main_module_paths", "stored_name"]

_MAIN: Final = "__main__"
_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")


def stored_name(function: Callable[..., Any]) -> str | None:
    """The name to register a function under; None: its own will do."""
    if getattr(function, "__module__", None) != _MAIN:
        return None
    module = _main_module()
    return None if module is None else f"{module}:{getattr(function, '__qualname__', None)}"


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
