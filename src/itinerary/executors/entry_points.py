"""Executors of other packages, found through the entry point group `itinerary.executors`.

    [project.entry-points."itinerary.executors"]
    lambda = "acme.executors:LambdaExecutor"

The name is the kind: the key in a task's definition, or the value of `executor`. The object is called without arguments
and returns an `Executor`. If the object has a `check`, a job's registration calls it with each definition. `check`
raises ConfigError if the definition is wrong. Only the plugin can know which keys are right.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from itinerary.errors import ConfigError
from itinerary.model.task import JsonObject
from itinerary.model.text import shown

__all__ = ["GROUP", "check_foreign", "installed", "is_installed", "load"]

GROUP: Final = "itinerary.executors"


def installed() -> tuple[str, ...]:
    """Return the names of the executors of other packages."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def is_installed(name: object) -> bool:
    """True if a package offers an executor with that name."""
    return isinstance(name, str) and _entry_point(name) is not None


def load(name: str) -> Any:
    """Load the object of an entry point. Raises ConfigError if that is not possible."""
    point = _entry_point(name)
    if point is None:
        known = ", ".join(installed()) or "none"
        raise ConfigError(
            f"executor: {shown(name)} is not installed (installed: {known}); install the package that offers it"
        )
    try:
        return point.load()
    except Exception as error:
        raise ConfigError(f"executor: {name} could not be loaded: {type(error).__name__}: {error}") from error


def check_foreign(name: str, run: JsonObject) -> None:
    """Raise ConfigError if the executor is not installed, or rejects this definition."""
    check = getattr(load(name), "check", None)
    if check is None:
        return
    try:
        check(run)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"executor: {name} could not check the task: {type(error).__name__}: {error}") from error


def _entry_point(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group=GROUP, name=name)), None)
