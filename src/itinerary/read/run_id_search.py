"""Search the whole history of a store for the occurrence with an id.

    now ◄── a minute ── ten minutes ── an hour ── a day ── a week ── four weeks ── … ── the first supported instant

An id is a hash, and no store keeps it: the key of an occurrence is shorter, and needs no hash when many start at once.
So the search computes the ids of all stored occurrences, newest instants first, until one matches. That takes some
seconds for a million occurrences. Keys are read in small pages, so that the event loop of a node is not blocked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from hashlib import sha1
from typing import Final, Protocol
from uuid import UUID

from itinerary.model.ids import OCCURRENCE_NAMESPACE, JobId, job_id
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, JobRow, Key
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import EARLIEST, LATEST
from itinerary.stores.paging import StoreRead, decided_between

__all__ = ["IdMatcher", "key_of_id"]

_STEPS: Final = (60, 600, 3_600, 86_400, 7 * 86_400)
"""The reach of the first windows, in seconds: most ids that a person looks up are new."""
_GROWTH: Final = 4
"""The factor by which each later window reaches further."""
_KEYS_AT_ONCE: Final = 5_000
"""The number of ids that are computed before the event loop runs other tasks: some milliseconds of work."""
_HEAD: Final = 6
"""The first bytes of a UUIDv5 are those of its hash; the version follows after them."""


class _Hash(Protocol):
    def copy(self) -> _Hash: ...
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class IdMatcher:
    """A matcher of keys with one id. For keys with an instant, the hash of the constant part is made once per job."""

    def __init__(self, jobs: Mapping[JobNumber, JobRow], wanted: UUID) -> None:
        self._jobs, self._wanted, self._head = jobs, wanted, wanted.bytes[:_HEAD]
        self._ids: dict[JobNumber, JobId] = {}
        self._begun: dict[tuple[JobNumber, Kind], _Hash] = {}

    def matches(self, key: Key) -> bool:
        """True if a key has the id. A key of an unknown job has none."""
        if key.job not in self._jobs:
            return False
        if key.kind in (Kind.SCHEDULED, Kind.BACKFILL):
            whole = self._hash_of(key).copy()
            whole.update(b"%d" % (key.instant // SECOND))
            if whole.digest()[:_HEAD] != self._head:
                return False
        return key.id(self._job_id(key.job)) == self._wanted

    def _hash_of(self, key: Key) -> _Hash:
        """Return the hash of the part that the ids of one job and kind share: see `model.ids`."""
        known = self._begun.get((key.job, key.kind))
        if known is None:
            text = f"{self._job_id(key.job)}/{key.kind.value}/"
            known = sha1(OCCURRENCE_NAMESPACE.bytes + text.encode(), usedforsecurity=False)
            self._begun[key.job, key.kind] = known
        return known

    def _job_id(self, job: JobNumber) -> JobId:
        known = self._ids.get(job)
        if known is None:
            known = self._ids[job] = job_id(self._jobs[job].name)
        return known


async def key_of_id(read: StoreRead, jobs: Mapping[JobNumber, JobRow], wanted: UUID, now: int) -> Key | None:
    """Return the key of the occurrence with an id; None if the store keeps no such occurrence.

    Args:
        read: The query function of the store.
        jobs: All jobs of the store.
        wanted: The id.
        now: The store's time: newer instants are searched first.
    """
    matcher = IdMatcher(jobs, wanted)
    for start, end in _windows(now):
        async for page in decided_between(read, start, end, _KEYS_AT_ONCE):
            for key in page:
                if matcher.matches(key):
                    return key
            await asyncio.sleep(0)
    return None


def _windows(now: int) -> Iterator[tuple[int, int]]:
    """Yield windows over all supported time, longer towards the past. The first window includes the future."""
    end, first = LATEST * SECOND, EARLIEST * SECOND
    steps, back = iter(_STEPS), 0
    while end > first:
        back = next(steps, back * _GROWTH)
        start = max(now - back * SECOND, first)
        yield start, end
        end = start
