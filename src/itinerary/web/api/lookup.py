"""Lookup of the job or occurrence that an address names, and page cursors."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterator
from uuid import UUID

import msgspec

from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import NotFoundError
from itinerary.model.rows import JobRow
from itinerary.model.text import shown
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.timeline_view import instead_of
from itinerary.web.problems import RequestRefused
from itinerary.web.server_state import ServerState

__all__ = ["JobNames", "cursor_of", "read_cursor"]

_CURSOR_MAX = 2_000
_SUGGESTED_FROM_MAX = 2_000
"""With more names than this, the error suggests no similar name."""


class JobNames:
    """The jobs by name, sorted once for each revision of the timeline."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._revision = -1
        self._by_name: dict[str, JobRow] = {}
        self._sorted: list[str] = []

    def job(self, snapshot: StoreSnapshot, wanted: str) -> JobRow:
        """Look up a job by name or id. Raises NotFoundError."""
        self._read(snapshot.timeline)
        found = self._by_name.get(wanted)
        if found is None and (identity := _as_id(wanted)) is not None:
            found = self._server.job_of_id(identity, snapshot.timeline)
        if found is None:
            few = self._by_name if len(self._by_name) <= _SUGGESTED_FROM_MAX else {}
            hint = instead_of(wanted, few) if few else "see how it is spelt"
            raise NotFoundError(f"there is no job {shown(wanted)} in the store; {hint}")
        return found

    def find(self, snapshot: StoreSnapshot, name: str) -> JobRow | None:
        """Look up a job by name; None if it does not exist."""
        self._read(snapshot.timeline)
        return self._by_name.get(name)

    def after(self, snapshot: StoreSnapshot, name: str | None) -> Iterator[JobRow]:
        """Return the jobs after `name`, in the order of their names."""
        self._read(snapshot.timeline)
        first = 0 if name is None else bisect_right(self._sorted, name)
        return (self._by_name[self._sorted[place]] for place in range(first, len(self._sorted)))

    def _read(self, timeline: Timeline) -> None:
        if self._revision != timeline.revision:
            self._by_name = {row.name: row for row in timeline.jobs.values()}
            self._sorted = sorted(self._by_name)
            self._revision = timeline.revision


def cursor_of(page: str, at: str | int | None) -> str | None:
    """Return the start of the next page as an opaque text."""
    return None if at is None else urlsafe_b64encode(msgspec.json.encode([page, at])).decode().rstrip("=")


def read_cursor(page: str, cursor: str | None, kind: type[str] | type[int]) -> str | int | None:
    """Return the place in a cursor of this page. Raises Refused if the cursor is invalid."""
    if cursor is None:
        return None
    try:
        whole = cursor[:_CURSOR_MAX] + "=" * (-len(cursor) % 4)
        of, at = msgspec.json.decode(urlsafe_b64decode(whole.encode("ascii")), type=tuple[str, kind])  # type: ignore[valid-type]  # msgspec reads it
    except (ValueError, msgspec.MsgspecError) as error:
        raise _no_cursor() from error
    if of != page or (isinstance(at, int) and not 0 <= at < 2**63):
        raise _no_cursor()
    place: str | int = at
    return place


def _no_cursor() -> RequestRefused:
    return RequestRefused(400, "No cursor", "cursor: this is none of this address; take the `next` of the page before")


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
