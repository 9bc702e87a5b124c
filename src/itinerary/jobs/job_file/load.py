"""A job file for an app: read once for its settings and jobs, and again when settings are reloaded (U13).

Jobs are declared when the app is made. A changed file changes settings on SIGHUP; its jobs change with
`itinerary apply` or at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from itinerary.config.configuration import SettingsSource
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.jobs.job_file.declarations import declarations_in
from itinerary.jobs.job_file.document import Document, document_of, read_document, read_text
from itinerary.jobs.job_file.problems import FileProblem
from itinerary.jobs.job_file.records import record_schedulers_in
from itinerary.jobs.job_file.schedules import schedule_warnings
from itinerary.jobs.job_file.settings import JOBS, RECORDS, settings_in
from itinerary.model.text import shown
from itinerary.records.declaration import DeskDeclaration
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["JobFile"]


class JobFile:
    """A job file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the file. Raises JobFileError if it cannot be read, or is not TOML."""
        self.name = os.fspath(path)
        """The name in errors."""
        self._path = Path(path).absolute()
        self._document: Document = read_document(path)
        self._problems = self._document.problems()
        self._desks: list[DeskDeclaration] = []
        self.settings: SettingsSource = settings_in(self._document, self._problems)
        """The valid settings of the node; `declarations` reports the mistakes."""

    def record_schedulers(self, rules: DeclarationContext, timezone: str | None) -> list[DeskDeclaration]:
        """Return the valid record schedulers; `declarations` reports the mistakes.

        `timezone` is the default of record schedulers that set none.
        """
        self._desks = record_schedulers_in(self._document, self._problems, rules, timezone)
        return self._desks

    def declarations(self, rules: DeclarationContext) -> list[Declaration]:
        """Return the jobs. Raises JobFileError with all mistakes of the file, including those of settings."""
        found = declarations_in(self._document, self._problems, rules)
        self._problems.raise_if_any()
        return found

    def reread(self) -> SettingsSource:
        """Return the current settings of the file. Raises JobFileError."""
        document = document_of(self.name, read_text(self._path))
        problems = document.problems()
        settings = settings_in(document, problems)
        problems.raise_if_any()
        return settings

    def warnings(self, declarations: Sequence[Declaration]) -> list[FileProblem]:
        """Return warnings: valid declarations that the user may not have intended."""
        found = self._document.problems()
        for desk in self._desks:
            for warning in desk.settings.warnings():
                found.add((RECORDS, desk.name, "early_morning_start_hour"), warning)
        names = [declaration.name for declaration in declarations]
        for declaration in declarations:
            for warning in schedule_warnings(declaration.schedule):
                found.add((JOBS, declaration.name, "schedule"), warning)
            for place, required in enumerate(declaration.definition(registered_at=0).requires):
                if required.job is not None and required.job not in names:
                    hint = did_you_mean(required.job, names, otherwise="the store must have it from elsewhere")
                    path = (JOBS, declaration.name, "requires", place, "job")
                    found.add(path, f"there is no job {shown(required.job)} in this file; {hint}")
        return found.in_order()
