"""The settings of the node in a job file: the same keys as `itinerary.toml`, at the top level.

    store = "sqlite:///itinerary.db"         arguments > ITINERARY_* > the job file > itinerary.toml > defaults

An operator starts a node with a file, so the file may allow modules from which code may be named (Q3).
"""

from __future__ import annotations

from typing import Any, Final

from itinerary.config.configuration import SETTING_KEYS, SettingsSource, blamed_key, check_one, configured
from itinerary.errors import ConfigError
from itinerary.jobs.job_file.document import Document
from itinerary.jobs.job_file.options import checked_options
from itinerary.jobs.job_file.problems import FileProblems
from itinerary.model.overrides import OverrideLevel
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["CALENDARS", "JOBS", "RECORDS", "settings_in"]

JOBS: Final = "jobs"
CALENDARS: Final = "calendars"
RECORDS: Final = "records"


def settings_in(document: Document, problems: FileProblems) -> SettingsSource:
    """Return the valid settings of a file, and add the mistakes of the others to the problems."""
    values: dict[str, Any] = {}
    for key, value in document.table.items():
        if key in SETTING_KEYS:
            before = len(problems.found)
            _check(problems, key, value)
            if len(problems.found) == before:
                values[key] = value
        elif key not in (JOBS, CALENDARS, RECORDS):
            problems.add((key,), _unknown(key))
    _check_together(problems, values)

    def called(key: str) -> str:
        line = problems.line((key,))
        return f"{document.name}: " if line is None else f"{document.name}:{line}: "

    return SettingsSource(values, called)


def _check(problems: FileProblems, key: str, value: object) -> None:
    if key == "defaults" and isinstance(value, dict) and "timezone" not in value:
        checked_options(
            problems, (key,), {name: one for name, one in value.items() if name != "env"}, OverrideLevel.SETTINGS
        )
        value = {name: one for name, one in value.items() if name == "env"}
    try:
        check_one(key, value)
    except ConfigError as error:
        problems.blame((), {key: value}, str(error))


def _check_together(problems: FileProblems, values: dict[str, Any]) -> None:
    """Report settings that contradict each other, and leave them out."""
    try:
        configured(values)
    except ConfigError as error:
        key = blamed_key(str(error), values)
        assert key is not None, "each of them is right by itself"
        if str(error).startswith(f"{key}."):
            problems.blame((), values, str(error))
        else:
            problems.add((key,), str(error))
        del values[key]


def _unknown(key: str) -> str:
    allowed = (JOBS, CALENDARS, RECORDS, *SETTING_KEYS)
    hint = did_you_mean(key, allowed, otherwise="at the top stand jobs, calendars, records and settings")
    return f"unknown key; {hint}"
