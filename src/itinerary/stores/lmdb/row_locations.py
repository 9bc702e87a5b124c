"""Rows below an occurrence: the home of the occurrence, and the rows there.

The *home* of an occurrence is its key, `job/<job>/occurrence/<ref>`, and all its rows are below that. A caller has only
the number. `ref/<ref>` has the job. The lookup happens once and is cached, because an occurrence never changes its job.
That key exists as long as the occurrence or any row below it.

The contract of a store allows rows below an occurrence that does not exist, or not yet. Such rows have their home with
job 0, and move when the occurrence is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import lmdb

from itinerary.stores.lmdb.keys import ScanBounds, after
from itinerary.stores.lmdb.layout import HOME, REF, TablePlace
from itinerary.stores.lmdb.scan import walk
from itinerary.stores.tables import Values

__all__ = ["NOWHERE", "Known", "RowLocations"]

Known = dict[int, bytes]
"""The cached homes."""
NOWHERE: Final = 0
"""The job of an occurrence that does not exist."""


class RowLocations:
    """The homes of occurrences, as one transaction sees them."""

    def __init__(self, txn: lmdb.Transaction[bytes], known: Known) -> None:
        self._txn = txn
        self._known = known

    def of(self, ref: int) -> bytes | None:
        """Return the home of an occurrence, or None if neither it nor any row below it exists."""
        home = self._known.get(ref)
        if home is None and (job := self._txn.get(REF.key((ref,)))) is not None:
            home = self._known[ref] = HOME.key((int.from_bytes(job, signed=True), ref))
        return home

    def settle(self, ref: int, job: int) -> bytes:
        """Set the home of an occurrence to this job, and move its rows if the home was another."""
        home = HOME.key((job, ref))
        before = self.of(ref)
        if before == home:
            return home
        self._txn.put(REF.key((ref,)), job.to_bytes(8, signed=True))
        self._known[ref] = home
        if before is not None:
            for key, value in list(walk(self._txn.cursor(), ScanBounds(before, after(before + b"/")), size=None)):
                self._txn.delete(key)
                self._txn.put(home + key[len(before) :], value)
        return home

    def leave(self, prefix: Values) -> None:
        """Remove the homes below which no row is left."""
        refs = [prefix[0]] if prefix else [ref for ref, _ in self._all((), ())]
        cursor = self._txn.cursor()
        for ref in refs:
            home = self.of(ref)
            if home is not None and not (cursor.set_range(home) and cursor.key().startswith(home)):
                self._txn.delete(REF.key((ref,)))
                del self._known[ref]

    def _all(self, low: Values, high: Values, *, newest_first: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield the occurrences from `low` to `high`, both included."""
        start, stop = REF.bounds((), low[:1], ())
        bounds = ScanBounds(start, REF.key(high[:1]) + b"\x00" if high else stop)
        for key, job in walk(self._txn.cursor(), bounds, size=REF.size, newest_first=newest_first):
            for ref in REF.values(key) or ():
                yield ref, HOME.key((int.from_bytes(job, signed=True), ref))

    def below(
        self, place: TablePlace, prefix: Values, low: Values, high: Values, *, newest_first: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a table below one occurrence, or below all of them, in order."""
        if not prefix:
            for ref, _ in self._all(low, high, newest_first=newest_first):
                if high == (ref,):
                    continue
                low_here = low[1:] if low[:1] == (ref,) else ()
                high_here = high[1:] if high[:1] == (ref,) else ()
                yield from self.below(place, (ref,), low_here, high_here, newest_first=newest_first)
            return
        home = self.of(prefix[0])
        if home is None:
            return
        if len(prefix) == len(place.table.key):
            key = home + place.path.key(prefix[1:])
            if (value := self._txn.get(key)) is not None:
                yield key, value
            return
        start, stop = place.path.bounds(prefix[1:], low, high)
        size = len(home) + (place.path.size or 0)
        yield from walk(self._txn.cursor(), ScanBounds(home + start, home + stop), size=size, newest_first=newest_first)
