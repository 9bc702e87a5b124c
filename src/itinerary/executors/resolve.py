"""The lookup of a function by its name, limited to allowed modules (Q3).

An allowed module imports other modules, so a chain of attributes could leave it: `reports:os.environ.copy` would reach
every secret of the node. The lookup therefore checks every step, and the function at the end.

    a step      a class, or an object of a class, of an allowed module; never a module, a function or a builtin
    the end     a function that an allowed module defines: its own `__module__` decides, not the module it was found in

A definition names a function by the module that defines it, not by one that imports it. A definition cannot name a
builtin: wrap it in a function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

from itinerary.errors import ConfigError

__all__ = ["MAIN", "MAIN_HERE", "Allows", "resolve_function"]

Allows = Callable[[str], bool]
"""A function that returns True if definitions may name code of a module."""

MAIN: Final = "__main__"
MAIN_HERE: Final = "__itinerary_main__"
"""The module name of a program in a worker, so that its `if __name__ == "__main__"` block does not run."""
_BUILTINS: Final = (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)


def resolve_function(name: str, module: ModuleType, qualname: str, allows: Allows) -> object:
    """Follow a qualified name through a module.

    Args:
        name: The whole name, for errors.
        module: The allowed module that the name begins with.
        qualname: The part of the name after the colon.
        allows: True for every other module that is allowed.

    Returns:
        The object with that name. The caller refuses a class, and an object that cannot be called.

    Raises:
        ConfigError: If the object does not exist, or is outside the allowed modules.
    """
    found: Any = module
    for part in qualname.split("."):
        if found is not module:
            _check_step(name, found, module, allows)
        if not hasattr(found, part):
            raise ConfigError(f"python: {name}: {module.__name__} has no {qualname}")
        found = getattr(found, part)
    if isinstance(found, ModuleType):
        raise ConfigError(f"python: {name}: this is the module {found.__name__}; name a function of it")
    if not callable(found) or isinstance(found, type):
        found = getattr(found, "__wrapped__", found)  # a decorator may have replaced the function by an object
    if callable(found) and not isinstance(found, type):
        _check_home(name, _home_of(found), module, allows)
    return found


def _check_step(name: str, step: object, module: ModuleType, allows: Allows) -> None:
    """Raise ConfigError if a step to a function is an object that no allowed module defines."""
    if isinstance(step, ModuleType):
        raise ConfigError(
            f"python: {name}: leads through the module {step.__name__}, which {module.__name__} imports; name the "
            f"function by its own module: '{step.__name__}:function'"
        )
    if inspect.isroutine(step):
        raise ConfigError(f"python: {name}: leads through a function; name a function, not an attribute of one")
    _check_home(name, (step if isinstance(step, type) else type(step)).__module__, module, allows)


def _check_home(name: str, home: str | None, module: ModuleType, allows: Allows) -> None:
    if home is None:
        raise ConfigError(f"python: {name}: this is a builtin; wrap it in a function of {module.__name__}")
    if not allows(MAIN if home == MAIN_HERE else home):
        raise ConfigError(
            f"python: {name}: its code is in the module {home}, which is not allowed; wrap it in a function of "
            f"{module.__name__}, or allow {home} in the node's settings"
        )


def _home_of(found: object) -> str | None:
    """Return the module that defines a callable; None for a builtin."""
    while isinstance(found, functools.partial | MethodType):
        found = found.func if isinstance(found, functools.partial) else found.__func__
    if isinstance(found, _BUILTINS):
        return None
    # A wrapper copies the module of the wrapped function. Any other object runs the code of its class.
    owner = found if inspect.isroutine(found) or hasattr(found, "__wrapped__") else type(found)
    home = getattr(owner, "__module__", None)
    return home if isinstance(home, str) else None
