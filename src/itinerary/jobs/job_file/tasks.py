"""The tasks of a job in a job file: `[[jobs.backup.tasks]]`.

A task has a name, one key for its kind, the keys of that kind, and options. TOML values that JSON does not have, such
as dates, become text in the body of a call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from typing import Any, Final

from itinerary.errors import ConfigError, IdentityError
from itinerary.executors.definitions import TASK_KEYS
from itinerary.executors.entry_points import is_installed
from itinerary.executors.pods.definition import in_order
from itinerary.executors.registry import split_name
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.jobs.job_file.options import checked_options, option_names
from itinerary.jobs.job_file.problems import FileProblems, unknown_key
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.model.overrides import OverrideLevel, Overrides
from itinerary.model.text import shown

__all__ = ["TASK_OPTIONS", "add_tasks", "is_function"]

TASK_OPTIONS: Final = option_names(OverrideLevel.TASK)
_NO_KINDS: Final = frozenset({"name", *Overrides.__struct_fields__})
_LEFT_OUT: Final[Mapping[str, object]] = {"env": {}, "headers": {}, "inherit_env": True, "use_shell": False}
"""Default values, which Python does not store."""
_EXAMPLE: Final = 'write [[jobs.NAME.tasks]], name = "dump" and shell = ["pg_dump", "-Fc"]'
_IN_POD: Final = frozenset({"python", "pod"})
"""The only valid pair of kinds: a function, and the pod that it runs in."""


def is_function(problems: FileProblems, path: Path, name: object, rules: DeclarationContext) -> bool:
    """True if a function may be named here (Q3); if not, the mistake is added to the problems."""
    try:
        module, _ = split_name(name) if isinstance(name, str) else ("", "")
        if module and rules.registry.known(str(name)) is None and not rules.registry.allows(module):
            root = module.partition(".")[0]
            hint = f'if it is meant, write allow_modules = ["{root}"] at the top'
            problems.add(path, f"{shown(name)} is in a module from which no code may be named; {hint}")
            return False
        rules.registry.check(name)
    except ConfigError as error:
        problems.add(path, str(error).removeprefix("python: "))
        return False
    return True


def add_tasks(
    problems: FileProblems, path: Path, given: object, declaration: Declaration, rules: DeclarationContext
) -> None:
    """Declare the valid tasks, and add the mistakes of the others to the problems."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        problems.add(path, f"{shown(given)} is not a list of tasks; {_EXAMPLE}")
        return
    if not given:
        problems.add(path, f"is empty, and a job has to do something; {_EXAMPLE}")
    for place, table in enumerate(given):
        _add_task(problems, (*path, place), table, declaration, rules)


def _add_task(
    problems: FileProblems, path: Path, table: dict[str, Any], declaration: Declaration, rules: DeclarationContext
) -> None:
    kind = _kind_of(problems, path, table)
    options = {key: value for key, value in table.items() if key in Overrides.__struct_fields__}
    run = {key: value for key, value in table.items() if key not in options and key != "name"}
    if kind in TASK_KEYS or kind is None:
        run = _known(problems, path, run, kind)
    read = checked_options(problems, path, options, OverrideLevel.TASK)
    name = table.get("name")
    if "name" not in table:
        problems.add((*path, "name"), "is missing; each task of a job has one of its own")
    elif not isinstance(name, str):
        problems.add((*path, "name"), f"{shown(name)} is not text")
    elif kind == "python" and not is_function(problems, (*path, kind), run[kind], rules):
        return
    elif kind is not None:
        _declare(problems, path, declaration, name, _jsonable(problems, path, run), read)


def _kind_of(problems: FileProblems, path: Path, table: Mapping[str, Any]) -> str | None:
    """Return the key that gives the kind; None on a mistake."""
    kinds = [key for key in table if key in TASK_KEYS]
    if set(kinds) == _IN_POD:
        return "python"
    if not kinds:  # a search of installed plugins is slow
        kinds = [key for key in table if key not in _NO_KINDS and is_installed(key)]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        problems.add(path, f"a task runs one thing; here are {' and '.join(kinds)}")
    elif not any("did you mean" in unknown_key(key, tuple(TASK_KEYS)) for key in table if key != "name"):
        problems.add(path, f"it runs nothing; give it one of the keys {', '.join(TASK_KEYS)}")
    return None


def _known(problems: FileProblems, path: Path, run: Mapping[str, Any], kind: str | None) -> dict[str, Any]:
    """Return the allowed keys, without default values."""
    every_key = tuple(dict.fromkeys(key for keys in TASK_KEYS.values() for key in keys))
    allowed = every_key if kind is None else TASK_KEYS[kind]
    if kind == "python":
        allowed = (*allowed, *TASK_KEYS["pod"])
    for key in run:
        if key in allowed:
            continue
        if key in every_key:
            owners = " or ".join(owner for owner, keys in TASK_KEYS.items() if key in keys)
            problems.add((*path, key), f"goes with {owners}, and not with {kind}")
        else:
            problems.add((*path, key), unknown_key(key, ("name", *allowed, *TASK_OPTIONS)))
    # The order in which Python writes them, so that equal tasks are equal as text.
    found = {key: run[key] for key in allowed if key in run and not _says_nothing(key, run[key])}
    if isinstance(found.get("pod"), dict):
        found["pod"] = in_order(found["pod"])
    return found


def _says_nothing(key: str, value: object) -> bool:
    usual = _LEFT_OUT.get(key)
    return type(value) is type(usual) and value == usual  # 1 equals True, and is not a switch


def _declare(
    problems: FileProblems,
    path: Path,
    declaration: Declaration,
    name: str,
    run: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    try:
        declaration.add_task(name, run, options)
    except IdentityError as error:
        problems.add((*path, "name"), str(error))
    except ConfigError as error:
        where = f"job {declaration.name!r}, task {name!r}: "
        if str(error).startswith(f"{where}executor: ") and "executor" not in options:
            problems.blame(path[:2], {}, str(error), where)  # the job sets the executor
        elif str(error).startswith(where):
            problems.blame(path, {**run, **options}, str(error), where)
        else:
            problems.add((*path, "name"), str(error))


def _jsonable(problems: FileProblems, path: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same values in JSON types."""
    return {
        key: _plain(problems, (*path, key), value) if key not in _NEVER_DATES else value for key, value in run.items()
    }


_NEVER_DATES: Final = frozenset(
    {"python", "shell", "http", "env", "headers", "cwd", "inherit_env", "use_shell", "input", "method"}
)


def _plain(problems: FileProblems, path: Path, value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(problems, (*path, key), inner) for key, inner in value.items()}
        case list():
            return [_plain(problems, (*path, place), inner) for place, inner in enumerate(value)]
        case date() | time():
            return value.isoformat()
        case float() if not math.isfinite(value):
            problems.add(path, f"{value} is a number that JSON does not have")
            return None
        case _:
            return value
