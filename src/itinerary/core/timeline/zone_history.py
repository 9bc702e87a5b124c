"""The zone data of a timeline: which table of a zone counts, and from when on (protocol rules 3 and 5).

    entries      Europe/Berlin, 2026a                    Europe/Berlin, 2026c
                     │                                        │
    tables       ◄───┴───────────── the first ────────────────┴──────────── the second ─────────────►

Zone data is entered on the timeline like everything else that decides about instants. So all nodes read the same
tables, even if they have different packages installed. A new table counts from the moment when it is entered, and
earlier due instants stay unchanged. Before its first entry, a zone has the table of that entry. A zone is entered with
the first job that needs it, or earlier. UTC needs no entry.

The expected instants of a schedule are therefore assembled from `SteadySpan`s: in each span, all of its zones have one
table. Nearly all schedules have a single span, since the rules of their zones have not changed.

IANA's release names decide which table is newer, not the order of arrival. Otherwise a node with an older package would
undo the entry of a newer one, and the two would alternate without end. If a table cannot be read, or a zone was never
entered, the schedules that need it cannot be enumerated. All other schedules can.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from itinerary.errors import ItineraryError, RecordError, UnknownZone
from itinerary.model.attempts import ZoneSpan
from itinerary.model.codec import from_json, to_json
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.timeline import TimelineEntryRequest
from itinerary.schedules import Zone, ZoneData, ZoneSource
from itinerary.schedules.zones import UTC, UTC_NAME, release_order

__all__ = ["SteadySpan", "StoredZone", "ZoneBook", "lacking_entries", "newer_entries", "outdated_names"]

_TABLES_MAX: Final = 1_024
"""The number of tables that are cached."""


class StoredZone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A zone's table, as stored in an entry."""

    release: str
    """The IANA release of the zone data."""
    digest: str
    zone: dict[str, Any]

    @classmethod
    def of(cls, zone: Zone, release: str) -> StoredZone:
        """Make the stored form of a table."""
        return cls(release, zone.digest, zone.to_json())


class _Table(NamedTuple):
    """A zone's table, from an instant on; or the error that makes it unreadable."""

    since: int
    revision: int
    release: str
    zone: Zone | RecordError


class SteadySpan(NamedTuple):
    """A time `[start, end)` in which no table that a schedule depends on changes."""

    start: int
    end: int
    number: int
    """The number of the span. Spans with equal numbers have the same tables of all zones."""
    zones: ZoneSource


class ZoneBook:
    """The tables of all zones, up to one revision. Immutable; `extended` makes another one."""

    __slots__ = ("_changes", "_sources", "_tables")

    def __init__(self, tables: Mapping[str, tuple[_Table, ...]] | None = None) -> None:
        """Make a book without tables. To build one with tables, use `extended`."""
        self._tables: Mapping[str, tuple[_Table, ...]] = tables or {}
        self._changes = sorted({table.since for known in self._tables.values() for table in known[1:]})
        """The instants at which a table replaces another."""
        self._sources: dict[int, ZoneSource] = {}

    def extended(self, entries: Iterable[EntryRow]) -> ZoneBook:
        """Return this book with later entries of any kind added; itself if none is about a zone."""
        tables: dict[str, tuple[_Table, ...]] = {}
        for entry in sorted(entries, key=lambda entry: (entry.revision, entry.line)):
            if entry.kind is EntryKind.ZONE:
                known = tables.get(entry.subject, self._tables.get(entry.subject, ()))
                # The new table replaces all tables that would have counted from then on, or later.
                before = tuple(table for table in known if table.since < entry.effective_from)
                tables[entry.subject] = (*before, _read(entry))
        return ZoneBook({**self._tables, **tables}) if tables else self

    def __contains__(self, name: object) -> bool:
        return name == UTC_NAME or name in self._tables

    @property
    def names(self) -> list[str]:
        """The zones that have been entered."""
        return sorted(self._tables)

    def newest(self, name: str) -> _Table | None:
        """Return the table that was entered last."""
        return self._tables[name][-1] if name in self._tables else None

    def table(self, name: str, instant: int) -> Zone:
        """Return a zone's table at an instant.

        Raises:
            UnknownZone: The store has no table of this zone.
            RecordError: The table cannot be read.
        """
        if name == UTC_NAME:
            return UTC
        known = self._tables.get(name)
        if known is None:
            raise UnknownZone(
                f"the store has no table of time zone {name!r}; start a node that knows it, and it enters one"
            )
        place = bisect_right(known, instant, key=lambda table: table.since) - 1
        zone = known[max(place, 0)].zone
        if not isinstance(zone, Zone):
            raise RecordError(str(zone))  # a new error, since the old one would collect a traceback with each raise
        return zone

    def spans(self, names: Iterable[str], start: int, end: int) -> Sequence[SteadySpan]:
        """Return `[start, end)` as spans, split wherever the table of one of these zones changes."""
        if not self._changes:
            return (SteadySpan(start, end, 0, self._source(0)),)
        cuts = {table.since for name in names for table in self._tables.get(name, ())[1:] if start < table.since < end}
        return [self._span(low, high) for low, high in pairwise((start, *sorted(cuts), end))]

    def told(self, names: Iterable[str], start: int, end: int) -> tuple[ZoneSpan, ...]:
        """Return the spans with plain tables, for a receiver without a book.

        Tables that cannot be read are left out; the receiver reports them missing when it needs them.
        """
        names = sorted(set(names) & self._tables.keys())
        return tuple(
            ZoneSpan(span.start, span.end, {name: table for name in names if (table := _plain(span, name)) is not None})
            for span in self.spans(names, start, end)
        )

    def _span(self, start: int, end: int) -> SteadySpan:
        number = bisect_right(self._changes, start)
        return SteadySpan(start, end, number, self._source(number))

    def _source(self, number: int) -> ZoneSource:
        """Return the cached tables between two changes. Most calls ask for the same few zones."""
        source = self._sources.get(number)
        if source is None:
            instant = self._changes[number - 1] if number else -(1 << 62)
            found: dict[str, Zone] = {}

            def zone(name: str) -> Zone:
                if name not in found:
                    found[name] = self.table(name, instant)
                return found[name]

            source = self._sources[number] = zone
        return source


def _plain(span: SteadySpan, name: str) -> dict[str, Any] | None:
    try:
        return span.zones(name).to_json()
    except RecordError:
        return None


@lru_cache(maxsize=_TABLES_MAX)
def _stored(body: str | None) -> tuple[str, Zone]:
    stored = from_json(StoredZone, body or "")
    zone = Zone.from_json(stored.zone)
    if zone.digest != stored.digest:
        raise RecordError(f"its digest is {zone.digest}, and it was entered as {stored.digest}")
    release_order(stored.release)
    return stored.release, zone


def _read(entry: EntryRow) -> _Table:
    try:
        release, zone = _stored(entry.body)
        if zone.name != entry.subject:
            raise RecordError(f"it is the table of {zone.name!r}")
    except ItineraryError as error:
        why = RecordError(f"entry {entry.revision}/{entry.line}, the table of zone {entry.subject!r}: {error}")
        return _Table(entry.effective_from, entry.revision, "", why)
    return _Table(entry.effective_from, entry.revision, release, zone)


# -- entries to make -------------------------------------------------------------------------------------------------


def lacking_entries(
    book: ZoneBook, data: ZoneData, names: Iterable[str], *, by: str, revision: int | None
) -> list[TimelineEntryRequest]:
    """Return entries for the zones in `names` that were never entered. Raises UnknownZone for one missing in `data`."""
    return [_entry(book, data, name, data.zone(name), by, revision) for name in sorted(set(names)) if name not in book]


def newer_entries(
    book: ZoneBook, data: ZoneData, names: Iterable[str], *, by: str, revision: int | None
) -> list[TimelineEntryRequest]:
    """Return the entries that a node with this data makes when it starts.

    An entry is made for a zone whose table differs from the stored one, if the data is newer. Entries are also made for
    stored tables that cannot be read, and for zones in `names` that were never entered. Zones that the data does not
    have, since their name is new or gone, stay unchanged.
    """
    found = []
    for name in sorted({*book.names, *names} - {UTC_NAME}):
        stored = _readable(book, name)
        if stored is not None and not data.is_newer_than(stored.release):
            continue
        zone = _zone_of(data, name)
        if zone is not None and (stored is None or zone.digest != stored.digest):
            found.append(_entry(book, data, name, zone, by, revision))
    return found


def outdated_names(book: ZoneBook, data: ZoneData) -> list[str]:
    """Return the zones whose stored table is newer than this data, and different."""
    found = []
    for name in book.names:
        stored = _readable(book, name)
        if stored is not None and release_order(stored.release) > release_order(data.release):
            zone = _zone_of(data, name)
            if zone is None or zone.digest != stored.digest:
                found.append(name)
    return found


def _zone_of(data: ZoneData, name: str) -> Zone | None:
    try:
        return data.zone(name)
    except UnknownZone:
        return None


class _Known(NamedTuple):
    release: str
    digest: str


def _readable(book: ZoneBook, name: str) -> _Known | None:
    """Return release and digest of the newest stored table of a zone; None if it cannot be read."""
    table = book.newest(name)
    return _Known(table.release, table.zone.digest) if table is not None and isinstance(table.zone, Zone) else None


def _entry(
    book: ZoneBook, data: ZoneData, name: str, zone: Zone, by: str, revision: int | None
) -> TimelineEntryRequest:
    """Make an entry. Two nodes that replace the same table with the same data make the same request."""
    replaced = book.newest(name)
    after = 0 if replaced is None else replaced.revision
    body = to_json(StoredZone.of(replace(zone, name=name), data.release)).decode()
    _stored(body)  # raise rather than enter an unreadable table
    return TimelineEntryRequest(
        job="",
        kind=EntryKind.ZONE,
        request=f"zone/{name}/{data.release}/{zone.digest[:16]}/{after}",
        by=by,
        revision=revision,
        subject=name,
        body=body,
        reason=f"zone data {data.release}",
    )
