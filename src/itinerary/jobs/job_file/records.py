"""Record schedulers in a job file: `[records.NAME]`, as `app.records` would have declared them.

    [records.folio]
    partition_by = "hotel"
    timezone = { python = "mypackage.folio:zone_of" }         or a name: "Europe/Lisbon"
    handler = "mypackage.folio:work"
    verification = "mypackage.folio:check"                     for records that name no kind
    verifications = { email = "mypackage.folio:check_mail" }   for each kind
    on_alert = ["mypackage.folio:page"]
    queue_high = 2000                                          and each other setting of a record scheduler

Functions are named and imported at the first call, like those of tasks: reading a file runs no code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from itinerary.errors import ConfigError, ItineraryError, RecordError
from itinerary.jobs.declaration import DeclarationContext
from itinerary.jobs.job_file.document import Document
from itinerary.jobs.job_file.problems import FileProblems, unknown_key
from itinerary.jobs.job_file.settings import JOBS, RECORDS
from itinerary.jobs.job_file.tasks import is_function
from itinerary.jobs.job_file.toml_positions import Path
from itinerary.jobs.named_functions import NamedFunction
from itinerary.model.text import shown
from itinerary.records.cycle import Cycle
from itinerary.records.declaration import DeskDeclaration, ZoneLike
from itinerary.records.event_types import ANY_CHECK
from itinerary.records.settings import DeskSettings, read_desk_settings

__all__ = ["RECORD_KEYS", "record_schedulers_in"]

_SETTINGS: Final = DeskSettings.__struct_fields__
RECORD_KEYS: Final = (
    "partition_by",
    "timezone",
    "handler",
    "verification",
    "verifications",
    "on_alert",
    *_SETTINGS,
)
_NO_CONFLICT: Final = {"queue_low": 1, "queue_high": 1_000_000}
"""Values with which each of the two settings is valid by itself."""
_FUNCTION: Final = 'write "package.module:function"'


def record_schedulers_in(
    document: Document, problems: FileProblems, rules: DeclarationContext, timezone: str | None
) -> list[DeskDeclaration]:
    """Return the record schedulers of a file, in its order, and add their mistakes to the problems."""
    given = document.table.get(RECORDS, {})
    if not isinstance(given, dict):
        problems.add((RECORDS,), f"{shown(given)} is not a table of record schedulers; write [records.NAME]")
        return []
    jobs = document.table.get(JOBS)
    names = jobs if isinstance(jobs, dict) else {}
    found = [_Reader(problems, rules, timezone, names, name, table).declaration() for name, table in given.items()]
    return [declaration for declaration in found if declaration is not None]


class _Reader:
    """The reader of one record scheduler."""

    def __init__(
        self,
        problems: FileProblems,
        rules: DeclarationContext,
        zone: str | None,
        jobs: Mapping[str, Any],
        name: str,
        table: object,
    ) -> None:
        self._problems, self._rules, self._zone, self._jobs = problems, rules, zone, jobs
        self._name, self._given = name, table
        self._path: Path = (RECORDS, name)

    def declaration(self) -> DeskDeclaration | None:
        """Return the record scheduler; None if it has a mistake."""
        table = self._given
        if not isinstance(table, dict):
            self._problems.add(self._path, f"{shown(table)} is not a record scheduler; write [records.NAME]")
            return None
        before = len(self._problems.found)
        for key in table:
            if key not in RECORD_KEYS:
                self._problems.add((*self._path, key), unknown_key(key, RECORD_KEYS))
        self._check_jobs()
        settings, zone = self._settings(table), self._timezone(table)
        declaration = self._declared(table, settings, zone)
        self._add_functions(table, DeskDeclaration("stand-in", settings) if declaration is None else declaration)
        return declaration if len(self._problems.found) == before else None

    def _check_jobs(self) -> None:
        for cycle in Cycle:
            if (job := f"{self._name}.{cycle.value}") in self._jobs:
                self._problems.add((JOBS, job), f"{RECORDS}.{self._name} has a job of this name; rename one of the two")

    def _settings(self, table: Mapping[str, Any]) -> DeskSettings:
        """Read each setting by itself, so that the first mistake does not hide the second; then all of them."""
        right: dict[str, Any] = {}
        for key in _SETTINGS:
            if key not in table:
                continue
            try:
                read_desk_settings({**_NO_CONFLICT, key: table[key]})
            except ConfigError as error:
                self._problems.add((*self._path, key), str(error).removeprefix(f"{key}: "))
            else:
                right[key] = table[key]
        try:
            return read_desk_settings(right)
        except ConfigError as error:
            self._problems.add((*self._path, "queue_low" if "queue_low" in table else "queue_high"), str(error))
            return DeskSettings()

    def _timezone(self, table: Mapping[str, Any]) -> ZoneLike:
        given = table.get("timezone")
        path: Path = (*self._path, "timezone")
        match given:
            case None:
                return self._zone
            case str():
                return given
            case {"python": str() as name, **rest} if not rest:
                return self._function((*path, "python"), name)
            case _:
                hint = 'write "Europe/Lisbon" or { python = "package.module:function" }'
                self._problems.add(path, f"{shown(given)} is not a time zone; {hint}")
                return None

    def _declared(self, table: Mapping[str, Any], settings: DeskSettings, zone: ZoneLike) -> DeskDeclaration | None:
        partition_by = table.get("partition_by")
        if partition_by is not None and not isinstance(partition_by, str):
            self._problems.add((*self._path, "partition_by"), f'{shown(partition_by)} is not a field; write "hotel"')
            partition_by = None
        zones = self._rules.zone_data.zone
        if isinstance(zone, str):
            try:
                zones(zone)
            except ItineraryError as error:
                self._problems.add((*self._path, "timezone"), str(error))
                zone = None
        try:
            return DeskDeclaration(self._name, settings, partition_by=partition_by, timezone=zone, zones=zones)
        except ItineraryError as error:
            key = ("partition_by",) if "partition_by" in str(error) else ()
            self._problems.add((*self._path, *key), str(error).removeprefix(f"desk {self._name!r}: "))
            return None

    def _add_functions(self, table: Mapping[str, Any], declaration: DeskDeclaration) -> None:
        if "handler" not in table:
            self._problems.add((*self._path, "handler"), f"is missing; {_FUNCTION}, which takes batches")
        elif (handler := self._function((*self._path, "handler"), table["handler"])) is not None:
            declaration.set_handler(handler)
        verifications = table.get("verifications", {})
        if not isinstance(verifications, dict):
            hint = 'write { email = "package.module:function" }'
            self._problems.add((*self._path, "verifications"), f"{shown(verifications)} is not a table; {hint}")
            verifications = {}
        for kind, name in verifications.items():
            self._add_verification((*self._path, "verifications", kind), kind, name, declaration)
        if "verification" in table:
            self._add_verification((*self._path, "verification"), ANY_CHECK, table["verification"], declaration)
        hooks = table.get("on_alert", [])
        for place, name in enumerate([hooks] if not isinstance(hooks, list) else hooks):
            path = (*self._path, "on_alert", place) if isinstance(hooks, list) else (*self._path, "on_alert")
            if (hook := self._function(path, name)) is not None:
                declaration.add_alert(hook)

    def _add_verification(self, path: Path, kind: str, name: object, declaration: DeskDeclaration) -> None:
        function = self._function(path, name)
        if function is None:
            return
        try:
            declaration.set_verification(kind, function)
        except (ConfigError, RecordError) as error:
            self._problems.add(path, str(error).removeprefix(f"desk {self._name!r}: "))

    def _function(self, path: Path, name: object) -> NamedFunction | None:
        if not isinstance(name, str):
            self._problems.add(path, f"{shown(name)} is not a function; {_FUNCTION}")
            return None
        if not is_function(self._problems, path, name, self._rules):
            return None
        return NamedFunction(self._rules.registry, name)
