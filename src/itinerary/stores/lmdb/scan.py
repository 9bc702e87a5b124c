"""Scans along the keys, in either direction.

One range of keys can hold several tables: occurrences below a job, attempts below a task. Keys of numbers have the same
length within a table and another length in the next, so the length identifies the table. Keys below a wanted row are
skipped in one step, however many there are: a list of jobs must not read their history.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmdb import Cursor

from itinerary.stores.lmdb.keys import ScanBounds, after

__all__ = ["walk"]


def walk(
    cursor: Cursor[bytes], bounds: ScanBounds, *, size: int | None, newest_first: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values between these bounds; with `size`, only keys of that length."""
    return _back(cursor, bounds, size) if newest_first else _forth(cursor, bounds, size)


def _forth(cursor: Cursor[bytes], bounds: ScanBounds, size: int | None) -> Iterator[tuple[bytes, bytes]]:
    start, stop = bounds
    is_there = cursor.set_range(start)
    while is_there:
        for item in cursor.iternext():
            key = item[0]
            if key >= stop:
                return
            if size is not None and len(key) > size:
                is_there = cursor.set_range(after(key[: size + 1]))
                break
            if size is None or len(key) == size:
                yield item
        else:
            return


def _back(cursor: Cursor[bytes], bounds: ScanBounds, size: int | None) -> Iterator[tuple[bytes, bytes]]:
    start, stop = bounds
    is_there = cursor.prev() if cursor.set_range(stop) else cursor.last()
    while is_there:
        item = cursor.item()
        key = item[0]
        if key < start:
            return
        if size is not None and len(key) > size:
            # Go to the row above this key, or, if that does not exist, to the key before it.
            above = key[:size]
            is_there = cursor.set_range(above)
            if cursor.key() == above:
                continue
        elif size is None or len(key) == size:
            yield item
        is_there = cursor.prev()
