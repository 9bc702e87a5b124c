"""Lookup of a job by name or id among a hundred thousand.

Jobs are only added to a timeline, and a number keeps its name permanently. So only new jobs are added to the index. A
UUID takes ten times as long to build as the hash that it contains. The hash finds the job, and one UUID is built to
confirm it.
"""

from __future__ import annotations

from hashlib import sha1
from itertools import islice
from typing import Final
from uuid import UUID

from itinerary.core.timeline.timeline import Timeline
from itinerary.model.ids import JOB_NAMESPACE, job_id
from itinerary.model.rows import JobNumber, JobRow

__all__ = ["JobLookup"]

_NAMESPACE: Final = JOB_NAMESPACE.bytes


def _mark(digest: bytes) -> bytes:
    """Return the bytes of an id that come from the hash only: the others contain its version and variant."""
    return digest[:6] + digest[9:16]


class JobLookup:
    """The jobs of one store, by name and by id."""

    def __init__(self) -> None:
        self._names: dict[str, JobNumber] = {}
        self._ids: dict[bytes, JobNumber] = {}
        self._identified = 0

    def of_name(self, name: str, timeline: Timeline) -> JobRow | None:
        """Return the job with this name."""
        for number, row in islice(timeline.jobs.items(), len(self._names), None):
            self._names[row.name] = number
        found = self._names.get(name)
        return None if found is None else timeline.jobs.get(found)

    def of_id(self, identity: UUID, timeline: Timeline) -> JobRow | None:
        """Return the job with this id."""
        for number, row in islice(timeline.jobs.items(), self._identified, None):
            self._ids[_mark(sha1(_NAMESPACE + row.name.encode(), usedforsecurity=False).digest())] = number
        self._identified = max(self._identified, len(timeline.jobs))
        near = self._ids.get(_mark(identity.bytes))
        found = None if near is None else timeline.jobs.get(near)
        return found if found is not None and job_id(found.name) == identity else None
