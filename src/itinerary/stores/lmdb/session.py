"""The writer thread of LMDB, and how readers make way for it.

A group of work is one write transaction, and each piece of work is a child transaction of it, as a savepoint.
(Measured: a child costs 2 µs, a journal of overwritten values 10 to 20 % of every write.)

**A full map** is doubled, up to a limit, and the group runs again. The map may change only while no thread reads it. So
each reader thread holds a permit, and a change of the map collects all permits. Reads are short, so this takes
milliseconds. Stale readers are cleared first: otherwise a reading process that was killed would keep old pages in use,
and the store would grow without end.

**A full disk** loses only the group: LMDB writes to unused pages, and then one page that makes them valid. If that last
write fails, LMDB invalidates its environment (`PanicError`). The writer opens it again before it answers, and readers
wait for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import lmdb

from itinerary.errors import StoreError
from itinerary.stores.engine import T, Work
from itinerary.stores.lmdb.files import Directory, explained
from itinerary.stores.lmdb.layout import MARK
from itinerary.stores.lmdb.row_locations import Known
from itinerary.stores.lmdb.transaction import LmdbTransaction

__all__ = ["READING_THREADS", "LmdbSession", "Map"]

READING_THREADS: Final = 4
_STALE_CHECK_INTERVAL: Final = 60.0
"""Seconds between two checks for dead readers."""
_REVIVED_WITHIN: Final = 10.0
"""Seconds that a reader waits for the writer to open the environment again."""
_KNOWN_MAX: Final = 100_000
"""The most homes in the cache of the writer: 20 MB."""


class Map:
    """The environment, and the permits to use it."""

    def __init__(self, directory: Directory, *, map_max: int, clock: Callable[[], int]) -> None:
        self.path = directory.path
        self.clock = clock
        self._directory = directory
        self._map_max = map_max
        self._permits = threading.Semaphore(READING_THREADS)
        self._is_broken = False
        self._reopened = threading.Condition()
        self._moved_on_at = 0
        """The number of the last transaction that only served to free pages."""
        self.env = directory.open()

    def read(self, work: Work[T]) -> T:
        """Run work in a read transaction. The caller is a reader thread."""
        while True:
            with self._permits:
                env = self.env
                try:
                    with env.begin() as txn:
                        return work(LmdbTransaction(txn, self.clock(), {}))
                except lmdb.PanicError as error:
                    given_up = error
                except lmdb.Error as error:
                    raise explained(error, self.path) from error
            if not self._wait_for_another(env):
                raise explained(given_up, self.path) from given_up

    def make_room(self) -> bool:
        """Make room in a full map: clear stale readers, and double the map.

        Returns:
            False if the map has its maximum size and nothing more can be freed.
        """
        self.env.reader_check()
        about = self.env.info()
        if about["map_size"] < self._map_max:
            with self._alone():
                self.env.set_mapsize(min(2 * about["map_size"], self._map_max))
            return True
        if about["last_txnid"] == self._moved_on_at:
            return False
        # Pages that the last transaction freed are usable in the transaction after the next. This one is the next.
        with self.env.begin(write=True) as txn:
            txn.put(MARK, txn.get(MARK, b""))
        self._moved_on_at = self.env.info()["last_txnid"]
        return True

    def begin(self) -> lmdb.Transaction[bytes]:
        """Begin a write transaction. If LMDB has invalidated the environment, open it again first."""
        try:
            if not self._is_broken:
                return self.env.begin(write=True)
        except lmdb.PanicError:
            self._is_broken = True
        with self._alone():
            self.env.close()
            self.env = self._directory.environment()
            self._is_broken = False
        with self._reopened:
            self._reopened.notify_all()
        return self.env.begin(write=True)

    def revive(self) -> None:
        """Open the environment again, if LMDB has invalidated it."""
        with suppress(lmdb.Error, StoreError):  # the next transaction retries, and reports the error
            self.begin().abort()

    def _wait_for_another(self, env: lmdb.Environment) -> bool:
        with self._reopened:
            return self._reopened.wait_for(lambda: self.env is not env, _REVIVED_WITHIN)

    def close(self) -> None:
        """Close the environment and the directory. No thread reads at this point."""
        self.env.close()
        self._directory.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        for _ in range(READING_THREADS):
            self._permits.acquire()
        try:
            yield
        finally:
            self._permits.release(READING_THREADS)


class LmdbSession:
    """The LMDB session of the writer. Its callback runs after a commit that must wake watchers."""

    def __init__(self, opened: Map, told: Callable[[], None]) -> None:
        self._map = opened
        self._told = told
        self._known: Known = {}
        self._group: lmdb.Transaction[bytes] | None = None
        self._child: lmdb.Transaction[bytes] | None = None
        self._work: LmdbTransaction | None = None
        self._has_told = False
        self._checked_at = time.monotonic()

    def begin(self) -> None:
        if time.monotonic() - self._checked_at > _STALE_CHECK_INTERVAL:
            self._map.env.reader_check()
            self._checked_at = time.monotonic()
        if len(self._known) > _KNOWN_MAX:
            self._known.clear()
        self._has_told = False
        try:
            self._group = self._map.begin()
        except lmdb.Error as error:
            raise explained(error, self._map.path) from error

    def savepoint(self) -> LmdbTransaction:
        self._child = self._map.env.begin(parent=self._group, write=True)
        self._work = LmdbTransaction(self._child, self._map.clock(), self._known)
        return self._work

    def release(self) -> None:
        assert self._child is not None
        assert self._work is not None
        self._child.commit()
        self._child = None
        self._has_told = self._has_told or self._work.has_told

    def undo(self, error: Exception) -> None:
        if isinstance(error, lmdb.Error):
            raise error
        assert self._child is not None
        self._known.clear()
        self._child.abort()
        self._child = None

    def commit(self) -> None:
        assert self._group is not None
        self._group.commit()
        self._group = None
        if self._has_told:
            self._told()

    def rollback(self) -> None:
        self._known.clear()
        if self._child is not None:
            self._child.abort()
            self._child = None
        if self._group is not None:
            self._group.abort()
            self._group = None

    def repair(self, error: Exception) -> Exception | None:
        if not isinstance(error, lmdb.Error):
            return error
        if isinstance(error, lmdb.MapFullError):
            try:
                if self._map.make_room():
                    return None
            except lmdb.Error as another:
                error = another
        self._map.revive()
        return explained(error, self._map.path)

    def rest(self) -> None:
        """Do nothing: this engine has no deferred maintenance."""

    def close(self) -> None:
        """Do nothing: the engine closes the map, after its readers."""
