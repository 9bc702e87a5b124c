"""Related occurrences: those that an occurrence overlapped, waited for, replaced or replayed.

named in its own history             overlaps occurrence 12, replaced by occurrence 14
naming it                            those that ended while it ran, or wait for it now
of the same instant                  the original of a replay, and its replays
before and after it                  in its job's history, by their ends
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from itinerary.model.occurrence import Kind
from itinerary.model.queries import ActiveQuery, ByRefQuery, HistoryQuery
from itinerary.model.reasons import ReasonKind, named_occurrences, read_reason
from itinerary.model.rows import OccurrenceRow, Ref
from itinerary.read.runs import RunDetail, RunView, run_seen
from itinerary.read.snapshot import StoreSnapshot
from itinerary.stores.paging import occurrences_of

__all__ = ["Link", "Related", "related_to"]

_LINKS_MAX: Final = 30
_AROUND: Final = 50
"""The number of occurrences that ended before it and are searched for those that it blocked."""
_NAMES: Final = {
    ReasonKind.OVERLAPS: "It was skipped, since this one was running",
    ReasonKind.WAITS: "It stood in line behind",
    ReasonKind.CALLED: "It had its turn after",
    ReasonKind.REPLACED: "It was replaced by",
}
_NAMED_BY: Final = {
    ReasonKind.OVERLAPS: "Skipped, since it was running",
    ReasonKind.WAITS: "Stands in line behind it",
    ReasonKind.CALLED: "Had its turn after it",
    ReasonKind.REPLACED: "It replaced",
}


class Link(msgspec.Struct, frozen=True):
    """Another occurrence, and its relation to this one."""

    what: str
    number: Ref
    run: RunView | None
    """None: the occurrence is no longer kept."""


class Related(msgspec.Struct, frozen=True):
    """The related occurrences."""

    links: tuple[Link, ...]
    earlier: Ref | None
    """The occurrence that ended before it in its job's history."""
    later: Ref | None


async def related_to(snapshot: StoreSnapshot, row: OccurrenceRow, detail: RunDetail) -> Related:
    """Return the related occurrences. Needs only a few store reads."""
    named = _named_in([row.reason, row.cancelled_by, *(step.why for step in detail.trail)], row.ref)
    rows = await snapshot.store.read(ByRefQuery(tuple(named)))
    links = [_link(snapshot, what, ref, rows.get(ref)) for ref, what in named.items()]
    again = await occurrences_of(snapshot.store.read, row.job, row.instant)
    links += [_link(snapshot, _again(row, one), one.ref, one) for one in again if one.ref != row.ref]
    around = list((await snapshot.store.read(HistoryQuery(row.job, row.place, _AROUND))).rows)
    waiting = await snapshot.store.read(ActiveQuery(row.job, limit=_AROUND))
    linked = {link.number for link in links}
    for one in (*waiting, *around):
        reason = read_reason(one.reason)
        if reason is not None and reason.ref == row.ref and one.ref not in linked:
            links.append(_link(snapshot, _NAMED_BY.get(reason.kind, "It is named by"), one.ref, one))
    earlier = around[0].ref if row.place is not None and around else None
    return Related(tuple(links[:_LINKS_MAX]), earlier, await _later(snapshot, row))


def _named_in(texts: Iterable[str | None], own: Ref) -> dict[Ref, str]:
    found: dict[Ref, str] = {}
    for text in texts:
        reason = read_reason(text)
        for ref in named_occurrences(text):
            if ref != own and ref not in found and len(found) < _LINKS_MAX:
                is_read = reason is not None and reason.ref == ref
                found[ref] = _NAMES.get(reason.kind, "It names") if is_read and reason is not None else "It names"
    return found


def _again(row: OccurrenceRow, other: OccurrenceRow) -> str:
    """Describe the relation of another occurrence of the same instant."""
    if other.kind is Kind.REPLAY:
        return "Replayed by" if row.kind is not Kind.REPLAY else "Another replay of the same instant"
    if other.kind is Kind.BACKFILL:
        return "Backfilled by"
    if row.kind is Kind.REPLAY:
        return "It replays"
    return "Of the same instant"


def _link(snapshot: StoreSnapshot, what: str, ref: Ref, row: OccurrenceRow | None) -> Link:
    job = None if row is None else snapshot.timeline.jobs.get(row.job)
    return Link(what, ref, None if row is None or job is None else run_seen(row, job, {}))


async def _later(snapshot: StoreSnapshot, row: OccurrenceRow) -> Ref | None:
    if row.place is None:
        return None
    page = await snapshot.store.read(HistoryQuery(row.job, row.place + 2, 1))
    return page.rows[0].ref if page.rows and page.rows[0].ref != row.ref else None
