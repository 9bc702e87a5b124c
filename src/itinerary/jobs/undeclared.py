"""Jobs that their source no longer declares. The store keeps the source of each job, so that they can be found.

    a declaration enters a version             its `subject` is the source: the file that declares the job
    another file declares the job unchanged    an entry of the kind `source` names the new file
    a source is started or applied             its jobs that it no longer declares are kept, stopped or removed

A job has one source, the last that declared it. Another file on the same store never touches it. A job that was stopped
because its source no longer declared it starts again when a source declares it again. A job that an operator stopped
stays stopped.

A source is the absolute path of a job file, or of the Python file that makes the app. Nodes on several machines share a
source if the file has the same path on each of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, assert_never

import msgspec

from itinerary.model.policies import Undeclared
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.model.version_subject import read_version_subject

__all__ = [
    "JobSource",
    "UndeclaredJobs",
    "calling_file",
    "is_stopped",
    "logical_path",
    "settling_entry",
    "source_entry",
    "source_of",
    "start_entry",
    "was_undeclared",
]

_PACKAGE: Final = __name__.partition(".")[0]
_STOPPED: Final = "undeclared/"
"""The prefix of the request of an entry that stops or removes an undeclared job."""


class JobSource(msgspec.Struct, frozen=True):
    """The source of declared jobs, with the policy for jobs that it no longer declares."""

    source: str
    undeclared: Undeclared | None = None
    """None: change neither undeclared jobs nor the source of any job."""


class UndeclaredJobs(msgspec.Struct, frozen=True):
    """The jobs that a source no longer declares, and what was done with them."""

    source: str
    undeclared: Undeclared
    jobs: tuple[str, ...]


def calling_file() -> str | None:
    """Return the file of the code that called into this package; None if it has none, as at a prompt."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    file = frame.f_globals.get("__file__")
    return logical_path(file) if isinstance(file, str) else None


def logical_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path without resolving links, so that a release behind a link keeps its name."""
    shell, here = os.environ.get("PWD", ""), Path.cwd()
    try:
        if os.path.isabs(shell) and os.path.samefile(shell, here):  # noqa: PTH117, PTH121 - PWD is the path with its links
            here = Path(shell)
    except OSError:
        pass
    return os.path.normpath(here / path)


def source_of(entries: Sequence[EntryRow]) -> str | None:
    """Return the source that declares a job, by its entries; None if none is known."""
    for entry in reversed(entries):
        match entry.kind:
            case EntryKind.SOURCE:
                return entry.subject
            case EntryKind.VERSION if source := read_version_subject(entry.subject).source:
                return source
            case _:
                pass
    return None


def is_stopped(entries: Iterable[EntryRow]) -> bool:
    """True if the job is stopped, by its entries."""
    return _stop(entries) is not None


def was_undeclared(entries: Iterable[EntryRow]) -> bool:
    """True if the job is stopped because its source no longer declared it."""
    stop = _stop(entries)
    return stop is not None and stop.request.startswith(_STOPPED)


def _stop(entries: Iterable[EntryRow]) -> EntryRow | None:
    """Return the stop that is in force, if any."""
    found = None
    for entry in entries:
        match entry.kind:
            case EntryKind.STOP:
                found = entry
            case EntryKind.START | EntryKind.REMOVE:
                found = None
            case _:
                pass
    return found


# Two nodes that start at once decide by the same revision. So both make the same request, which is entered once.


def settling_entry(job: str, home: JobSource, *, by: str, revision: int) -> TimelineEntryRequest:
    """Return the entry that stops or removes a job that its source no longer declares."""
    match home.undeclared:
        case Undeclared.REMOVE:
            kind = EntryKind.REMOVE
        case Undeclared.STOP:
            kind = EntryKind.STOP
        case Undeclared.KEEP | None:
            raise AssertionError("a job that is kept needs no entry")
        case _:
            assert_never(home.undeclared)
    return TimelineEntryRequest(
        job=job,
        kind=kind,
        request=f"{_STOPPED}{kind}/{revision}",
        by=by,
        revision=revision,
        reason=f"no longer declared in {home.source}",
    )


def start_entry(job: str, source: str, *, by: str, revision: int) -> TimelineEntryRequest:
    """Return the entry that starts a job that was stopped as undeclared."""
    return TimelineEntryRequest(
        job=job,
        kind=EntryKind.START,
        request=f"source/start/{revision}",
        by=by,
        revision=revision,
        reason=f"declared again in {source}",
    )


def source_entry(job: str, source: str, *, by: str, revision: int) -> TimelineEntryRequest:
    """Return the entry that names the source of a job from now on."""
    return TimelineEntryRequest(
        job=job,
        kind=EntryKind.SOURCE,
        request=f"source/{revision}",
        by=by,
        revision=revision,
        subject=source,
        reason=f"declared in {source}",
    )
