"""Read the jobs under `[jobs.NAME]` of a job file, as `app.job` would declare them.

    [jobs.backup]            Declaration(name, schedule, options)
    [[jobs.backup.tasks]]        .add_task           see `tasks`
    requires = [{ … }]           .add_requirement
    on_start, on_complete        .add_hook           functions, by name

If the job itself has a mistake, its parts are still checked, against a placeholder. So all mistakes are reported at
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from itinerary.errors import ConfigError, IdentityError, ItineraryError, UnknownZone
from itinerary.executors.definitions import TASK_KEYS
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.jobs.job_file.document import Document
from itinerary.jobs.job_file.options import checked_options, option_names
from itinerary.jobs.job_file.problems import FileProblems, unknown_key
from itinerary.jobs.job_file.schedules import read_calendars, read_schedule
from itinerary.jobs.job_file.settings import CALENDARS, JOBS, RECORDS
from itinerary.jobs.job_file.tasks import add_tasks, is_function
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.model.definition import Requirement
from itinerary.model.overrides import OverrideLevel
from itinerary.model.text import shown
from itinerary.schedules import Calendar, every

__all__ = ["JOB_KEYS", "JOB_OPTIONS", "declarations_in"]

JOB_OPTIONS: Final = option_names(OverrideLevel.JOB)
JOB_KEYS: Final = ("schedule", "tasks", "requires", "on_start", "on_complete", *JOB_OPTIONS)
_HOOKS: Final = ("on_start", "on_complete")


def declarations_in(document: Document, problems: FileProblems, rules: DeclarationContext) -> list[Declaration]:
    """Return the jobs of a file, in its order, and add their mistakes to the problems."""
    calendars = read_calendars(problems, (CALENDARS,), document.table.get(CALENDARS, {}))
    jobs = document.table.get(JOBS)
    if jobs is None and any(unknown_key(key, (JOBS,)).endswith(f"{JOBS!r}?") for key in document.table):
        return []  # the key is misspelt, and that is already reported
    if (jobs is None or jobs == {}) and document.table.get(RECORDS):
        return []
    if jobs is None or jobs == {}:
        problems.add((JOBS,), "there are none; write [jobs.NAME] and below it a schedule and tasks")
        return []
    if not isinstance(jobs, dict):
        problems.add((JOBS,), f"{shown(jobs)} is not a table of jobs; write [jobs.NAME]")
        return []
    found = [_Reader(problems, rules, calendars, name, table).declaration() for name, table in jobs.items()]
    return [declaration for declaration in found if declaration is not None]


class _Reader:
    """The reader of one job."""

    def __init__(
        self,
        problems: FileProblems,
        rules: DeclarationContext,
        calendars: Mapping[str, Calendar | None],
        name: str,
        table: object,
    ) -> None:
        self._problems, self._rules, self._calendars = problems, rules, calendars
        self._name, self._given = name, table
        self._path: Path = (JOBS, name)

    def declaration(self) -> Declaration | None:
        """Return the job; None if it has a mistake."""
        if not isinstance(self._given, dict):
            self._problems.add(self._path, f"{shown(self._given)} is not a job; write [jobs.NAME] and a schedule")
            return None
        before = len(self._problems.found)
        self._check_keys(self._given)
        declaration = self._declared(self._given)
        self._add_parts(self._given, declaration)
        if len(self._problems.found) == before:
            self._check_size(declaration)
        return declaration if len(self._problems.found) == before else None

    def _check_keys(self, table: Mapping[str, Any]) -> None:
        for key in table:
            if key in JOB_KEYS:
                continue
            in_a_task = any(key in keys for keys in TASK_KEYS.values())
            hint = "stands on a task; write [[jobs.NAME.tasks]]" if in_a_task else unknown_key(key, JOB_KEYS)
            self._problems.add((*self._path, key), hint)

    def _declared(self, table: Mapping[str, Any]) -> Declaration:
        """Return the job without its parts, or a placeholder for it."""
        schedule = None
        if "schedule" in table:
            schedule = read_schedule(self._problems, (*self._path, "schedule"), table["schedule"], self._calendars)
        else:
            self._problems.add(
                (*self._path, "schedule"), 'is missing; write schedule = "0 5 * * *" or { every = "15m" }'
            )
        given = {key: value for key, value in table.items() if key in JOB_OPTIONS}
        options = checked_options(self._problems, self._path, given, OverrideLevel.JOB)
        self._check_zone(options)
        try:
            return Declaration(self._rules, self._name, every("1h") if schedule is None else schedule, options)
        except IdentityError as error:
            self._problems.add(self._path, str(error))
            return Declaration(self._rules, "stand-in", every("1h"), {})
        except ConfigError as error:
            self._problems.blame(self._path, table, str(error), f"job {self._name!r}: ")
        except ItineraryError as error:
            self._problems.add((*self._path, "schedule"), str(error).removeprefix(f"job {self._name!r}: "))
        return Declaration(self._rules, self._name, every("1h"), {})

    def _check_zone(self, options: dict[str, Any]) -> None:
        try:
            self._rules.zone_data.zone(options.get("timezone", "UTC"))
        except UnknownZone as error:
            self._problems.add((*self._path, "timezone"), str(error))
            del options["timezone"]

    def _add_parts(self, table: Mapping[str, Any], declaration: Declaration) -> None:
        if "tasks" in table:
            add_tasks(self._problems, (*self._path, "tasks"), table["tasks"], declaration, self._rules)
        else:
            self._problems.add(
                (*self._path, "tasks"), 'are missing; write [[jobs.NAME.tasks]], name = "dump" and what it runs'
            )
        requires = table.get("requires", [])
        if isinstance(requires, list):
            for place, one in enumerate(requires):
                self._add_requirement((*self._path, "requires", place), one, declaration)
        else:
            self._problems.add(
                (*self._path, "requires"), f'{shown(requires)} is not a list; write [{{ job = "import" }}]'
            )
        for key in _HOOKS:
            self._add_hooks(key, table.get(key, []), declaration)

    def _add_requirement(self, path: Path, given: object, declaration: Declaration) -> None:
        if not isinstance(given, dict):
            self._problems.add(path, f'{shown(given)} is not a requirement; write {{ job = "import" }}')
            return
        before = len(self._problems.found)
        for key in given:
            if key not in Requirement.__struct_fields__:
                self._problems.add((*path, key), unknown_key(key, Requirement.__struct_fields__))
        for key in ("python", "action"):
            if isinstance(name := given.get(key), str):
                is_function(self._problems, (*path, key), name, self._rules)
        if len(self._problems.found) > before:
            return
        try:
            declaration.add_requirement(given)
        except ConfigError as error:
            message = str(error).removeprefix(f"job {declaration.name!r}: ").removeprefix("requires.")
            self._problems.blame(path, given, message, "requires: ")

    def _add_hooks(self, key: str, given: object, declaration: Declaration) -> None:
        names = [given] if isinstance(given, str) else given
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            self._problems.add((*self._path, key), f'{shown(given)} is not a function; write "package.module:function"')
            return
        for name in names:
            if is_function(self._problems, (*self._path, key), name, self._rules):
                declaration.add_hook(name, is_start=key == "on_start")

    def _check_size(self, declaration: Declaration) -> None:
        try:
            declaration.body(registered_at=0)
        except ItineraryError as error:
            self._problems.add(self._path, str(error).removeprefix(f"job {self._name!r}: "))
