"""Options of a job, a task or all jobs, read one by one, so that the first mistake does not hide the second.

Each option is read by itself, as `read_overrides` reads all. Related options, such as a recovery strategy and its
bounds, are read together once each is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.jobs.job_file.problems import FileProblems, unknown_key
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.model.overrides import LEAVES, OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import RecoveryPolicy, Retry

__all__ = ["checked_options", "option_names"]

_GROUPS: Final[Mapping[str, type[msgspec.Struct]]] = {"retry": Retry, "recovery": RecoveryPolicy}


def option_names(level: OverrideLevel) -> tuple[str, ...]:
    """Return the options that a level may set."""
    return tuple(dict.fromkeys(leaf.partition(".")[0] for leaf, levels in LEAVES.items() if level in levels))


def checked_options(
    problems: FileProblems, path: Path, table: Mapping[str, Any], level: OverrideLevel
) -> dict[str, Any]:
    """Return the valid options of a table, and add the mistakes of the others to the problems."""
    return {key: value for key, value in table.items() if _is_right(problems, path, key, value, level)}


def _is_right(problems: FileProblems, path: Path, key: str, value: Any, level: OverrideLevel) -> bool:
    before = len(problems.found)
    if key not in Overrides.__struct_fields__:
        problems.add((*path, key), unknown_key(key, option_names(level)))
    elif key in _GROUPS and isinstance(value, dict):
        fields = _GROUPS[key].__struct_fields__
        for field, inner in value.items():
            if field in fields:
                _read(problems, path, {key: {field: inner}}, level)
            else:
                problems.add((*path, key, field), unknown_key(field, fields))
    if len(problems.found) == before:
        _read(problems, path, {key: value}, level)
    return len(problems.found) == before


def _read(problems: FileProblems, path: Path, table: Mapping[str, Any], level: OverrideLevel) -> None:
    try:
        read_overrides(table, level)
    except ConfigError as error:
        problems.blame(path, table, str(error))
