"""Which job has a name, or an id, among a hundred thousand: looked up, since people click on one after another.

Jobs are only ever added to a timeline, and a number keeps its name for ever. So what is new is learnt, and the rest is
not looked at again. To make a UUID takes ten times as long as the hash that it is made of; the hash finds the job, and
one UUID is made to be sure.
"""

from __future__ import annotations

from hashlib import sha1
from itertools import islice
from typing import Final
from uuid import UUID

from itinerary.core.timeline.timeline import Timeline
from itinerary.model.ids import JOB_NAMESPACE, job_id
from itinerary.model.rows import JobNumber, JobRow

__all__ = ["JobsKnown"]

_NAMESPACE: Final = JOB_NAMESPACE.bytes


def _mark(digest: bytes) -> bytes:
    """Those bytes of an id that are of the hash alone: in the others stand its version and variant."""
    return digest[:6] + digest[9:16]


class JobsKnown:
    """The jobs of one store."""

    def __init__(self) -> None:
        self._names: dict[str, JobNumber] = {}
        self._ids: dict[bytes, JobNumber] = {}
        self._identified = 0

    def of_name(self, name: str, timeline: Timeline) -> JobRow | None:
        """The job that has this name."""
        for number, row in islice(timeline.jobs.items(), len(self._names), None):
            self._names[row.name] = number
        found = self._names.get(name)
        return None if found is None else timeline.jobs.get(found)

    def of_id(self, identity: UUID, timeline: Timeline) -> JobRow | None:
        """The job that has this id."""
        for number, row in islice(timeline.jobs.items(), self._identified, None):
            self._ids[_mark(sha1(_NAMESPACE + row.name.encode(), usedforsecurity=False).digest())] = number
        self._identified = max(self._identified, len(timeline.jobs))
        near = self._ids.get(_mark(identity.bytes))
        found = None if near is None else timeline.jobs.get(near)
        return found if found is not None and job_id(found.name) == identity else None
