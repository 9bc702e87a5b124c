"""Reads: the answer to every query of `model.queries`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from itinerary.model import queries as q
from itinerary.model.audit_queries import InspectQuery, PointersQuery
from itinerary.model.audit_trail import all_attempts, whole_trail
from itinerary.model.rows import EntryRow, JobNumber, Key, NodeNumber, OccurrenceRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.stores.ledger.audit_reads import inspect, pointers
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.ledger.events import homes_of
from itinerary.stores.ledger.history import history, recent
from itinerary.stores.ledger.indexes import is_for_the_sweep
from itinerary.stores.ledger.last_runs import last_runs
from itinerary.stores.ledger.tokens import all_tokens, token_named, token_of
from itinerary.stores.tables import (
    ACTIVE,
    ATTEMPTS,
    CONFIGS,
    ENTRIES,
    EVENTS,
    JOBS,
    MAIL,
    NODES,
    OCCURRENCES,
    OVERLAP_QUEUE,
    OVERLAP_SLOTS,
    PARTITIONS,
    SHARES,
    STATISTICS,
    STREAMS,
    SWEEP,
    TASKS,
    TRANSITIONS,
    WAITING,
)
from itinerary.stores.transaction import Transaction

__all__ = ["answer"]

_ACTIVE_MAX = 1_000_000
_OWN_MAX = 20
"""The most of its own late occurrences that a node sees when it looks for work."""
_UNSTARTED = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})
_OF_ONE_MAX = 100_000
"""The most tasks, attempts or transitions of one occurrence."""


def answer(tx: Transaction, query: q.Query[q.Answer]) -> q.Answer:
    """Return the answer to a query."""
    return cast("q.Answer", _ANSWERS[type(query)](tx, query))


def _standing(tx: Transaction, _: q.StoreStatusQuery) -> q.Status:
    return q.Status(tx.now(), revision_of(tx), tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark)


def _entries(tx: Transaction, query: q.EntriesQuery) -> list[EntryRow]:
    rows = tx.scan(ENTRIES, low=(query.after + 1,), limit=query.limit)
    if len(rows) < query.limit:
        return rows
    last = rows[-1].revision  # the limit may cut this revision, so it is read whole
    return [row for row in rows if row.revision < last] + tx.scan(ENTRIES, (last,), limit=_OF_ONE_MAX)


def _active(tx: Transaction, query: q.ActiveQuery) -> list[OccurrenceRow]:
    prefix = () if query.job is None else (query.job,)
    if query.due_before is None:
        refs = [row.ref for row in tx.scan(ACTIVE, prefix, limit=query.limit)]
        if query.with_queued and len(refs) < query.limit:
            refs += [row.ref for row in tx.scan(OVERLAP_QUEUE, prefix, limit=query.limit - len(refs))]
        return _by_ref(tx, refs)
    due = [row for row in tx.scan(ACTIVE, prefix, limit=_ACTIVE_MAX) if row.due_at < query.due_before]
    due.sort(key=lambda row: row.due_at)
    rows = _by_ref(tx, [row.ref for row in due[: query.limit]])
    if query.with_queued:
        in_line = _by_ref(tx, [row.ref for row in tx.scan(OVERLAP_QUEUE, prefix, limit=query.limit)])
        rows += [row for row in in_line if row.due_at < query.due_before]
    return sorted(rows, key=lambda row: row.due_at)[: query.limit]


def _waiting(tx: Transaction, query: q.WaitingQuery) -> list[OccurrenceRow]:
    return _by_ref(tx, [row.ref for row in tx.scan(WAITING, high=(query.due_before,), limit=query.limit)])


def _open(tx: Transaction, query: q.OpenQuery) -> q.Offers:
    now, watermark = tx.now(), tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark
    waiting = _waiting(tx, q.WaitingQuery(now, query.limit))
    if len(waiting) == query.limit:
        # An old backlog must not hide occurrences that are due now.
        newest = tx.scan(WAITING, high=(now,), limit=query.limit, newest_first=True)
        seen = {row.ref for row in waiting}
        waiting += _by_ref(tx, [row.ref for row in newest if row.ref not in seen])
    rows = (*waiting, *_left_lying(tx, query, now - query.takeover_after))
    old = now - query.grace_period
    if any(row.due_at < old for row in rows):
        rows = tuple(row for row in rows if row.due_at >= old or not is_for_the_sweep(row, watermark))
    return q.Offers(now, watermark, rows)


def _left_lying(tx: Transaction, query: q.OpenQuery, due_before: int) -> list[OccurrenceRow]:
    """Return occurrences that other nodes have claimed but not started.

    Long runs are also long due, and come first. If the first page has nothing else, all of them are read.

    A few occurrences of the node itself come last, the oldest and the newest. The node knows them, with one exception:
    the answer to a claim was lost, and the node stopped retrying because the timeline changed. Then the owner is alive
    but does not know its row.
    """
    due = sorted((row.due_at, row.ref) for row in tx.scan(ACTIVE, limit=_ACTIVE_MAX) if row.due_at < due_before)
    found: list[OccurrenceRow] = []
    own: list[OccurrenceRow] = []
    for some in (due[: query.limit], due[query.limit :]):
        rows = _by_ref(tx, [ref for _, ref in some]) if some else []
        own += [row for row in rows if row.owner == query.node and row.status in _UNSTARTED and row.started_at is None]
        found = [row for row in rows if _is_left_lying(row, query.node)]
        if found:
            break
    return [*found[: query.limit], *own[: _OWN_MAX // 2], *own[max(_OWN_MAX // 2, len(own) - _OWN_MAX // 2) :]]


def _is_left_lying(row: OccurrenceRow, node: NodeNumber) -> bool:
    if row.started_at is not None:
        return row.owner is None
    return row.status in _UNSTARTED and row.owner not in (None, node)


def _overdue(tx: Transaction, query: q.OverdueQuery) -> q.Overtime:
    """Return occurrences past their timeout, and queues that are stuck.

    Reads every due, unended occurrence in pages.
    """
    now = tx.now()
    due = sorted((row.due_at, row.ref) for row in tx.scan(ACTIVE, limit=_ACTIVE_MAX) if row.due_at < now)
    expired: list[OccurrenceRow] = []
    for first in range(0, len(due), q.PAGE_MAX):
        for row in _by_ref(tx, [ref for _, ref in due[first : first + q.PAGE_MAX]]):
            if row.expires_at is not None and row.expires_at <= now and len(expired) < query.limit:
                expired.append(row)
    return q.Overtime(now, tuple(expired), tuple(_stuck(tx, query.limit)))


def _stuck(tx: Transaction, limit: int) -> list[OccurrenceRow]:
    """Return the first in each overlap queue whose slot is empty, or whose slot holder has ended."""
    lines: dict[JobNumber, OccurrenceRow] = {row.job: row for row in _by_ref(tx, _first_in_line(tx, limit))}
    slots = tx.get(OVERLAP_SLOTS, [(job,) for job in lines])
    holders = tx.get(OCCURRENCES, [(slot.ref,) for slot in slots.values() if slot.ref is not None])
    running = {slot.job for slot in slots.values() if (slot.ref,) in holders and _runs(holders[slot.ref,])}
    return [row for job, row in lines.items() if job not in running]


def _first_in_line(tx: Transaction, limit: int) -> list[Ref]:
    """Return the first entry of each overlap queue, without reading the rest."""
    found: list[Ref] = []
    low: tuple[int, ...] = ()
    while len(found) < limit and (first := tx.scan(OVERLAP_QUEUE, low=low, limit=1)):
        found.append(first[0].ref)
        low = (first[0].job + 1,)
    return found


def _runs(row: OccurrenceRow) -> bool:
    return row.status not in FINAL


def _by_ref(tx: Transaction, refs: Sequence[Ref]) -> list[OccurrenceRow]:
    found = tx.get(OCCURRENCES, [(ref,) for ref in refs])
    return [found[ref,] for ref in refs if (ref,) in found]


def _made(tx: Transaction, query: q.CreatedQuery) -> list[OccurrenceRow]:
    if query.after is None:
        return tx.scan(OCCURRENCES, limit=1, newest_first=True)
    return tx.scan(OCCURRENCES, low=(query.after + 1,), limit=query.limit)


def _decided(tx: Transaction, query: q.DecidedQuery) -> list[Key]:
    low = (query.start,) if query.begin is None else tuple(query.begin)
    return [Key(*name) for name in tx.names(OCCURRENCES, low=low, high=(query.end,), limit=query.limit)]


def _details(tx: Transaction, query: q.DetailsQuery) -> list[q.Detail]:
    rows = _by_ref(tx, query.refs)
    configs = tx.get(CONFIGS, {(row.config,) for row in rows if row.config is not None})
    details = []
    for row in rows:
        config = row.own_config if row.config is None else configs[row.config,].body
        tasks = tuple(tx.scan(TASKS, (row.ref,), limit=_OF_ONE_MAX))
        lines = tx.scan(TRANSITIONS, (row.ref,), limit=_OF_ONE_MAX)
        attempts = all_attempts(row, lines, tx.scan(ATTEMPTS, (row.ref,), limit=_OF_ONE_MAX))
        details.append(q.Detail(row, config, tasks, attempts, whole_trail(row, lines)))
    return details


def _events(tx: Transaction, query: q.EventsQuery) -> Sequence[Any]:
    low = (query.after + 1,)
    if query.partition is None:
        return tx.scan(EVENTS, (query.stream,), low=low, limit=query.limit, by_name=True)
    return tx.scan(EVENTS, (query.stream, query.partition), low=low, limit=query.limit)


_ANSWERS: dict[type, Callable[[Transaction, Any], Any]] = {
    q.StoreStatusQuery: _standing,
    q.EntriesQuery: _entries,
    q.JobsQuery: lambda tx, query: tx.scan(JOBS, low=(query.after + 1,), limit=query.limit),
    q.JobsByNameQuery: lambda tx, query: {
        row.name: row for row in tx.named(JOBS, [(name,) for name in query.names]).values()
    },
    q.HistoryQuery: history,
    q.RecentQuery: lambda tx, query: recent(tx, query.jobs, query.limit, query.ended_before),
    q.ActiveQuery: _active,
    q.WaitingQuery: _waiting,
    q.OpenQuery: _open,
    q.OverdueQuery: _overdue,
    q.CreatedQuery: _made,
    q.DecidedQuery: _decided,
    q.ByKeyQuery: lambda tx, query: {
        row.key: row for row in tx.named(OCCURRENCES, [tuple(key) for key in query.keys]).values()
    },
    q.ByRefQuery: lambda tx, query: {row.ref: row for row in _by_ref(tx, query.refs)},
    q.DetailsQuery: _details,
    q.LastRunsQuery: lambda tx, query: last_runs(tx, query.refs),
    q.NodesQuery: lambda tx, query: tx.scan(NODES, limit=query.limit, newest_first=True),
    q.MailQuery: lambda tx, query: [row.ref for row in tx.scan(MAIL, (query.node,), limit=query.limit)],
    q.StatisticsQuery: lambda tx, query: tx.scan(
        STATISTICS,
        (query.node,),
        low=(query.since,),
        high=() if query.until is None else (query.until,),
        limit=query.limit,
        newest_first=query.newest_first,
    ),
    q.LimitUseQuery: lambda tx, query: [row.ref for row in tx.scan(SHARES, (query.name,), limit=query.limit)],
    q.PartitionsQuery: lambda tx, query: tx.scan(PARTITIONS, (query.stream,), limit=query.limit),
    q.EventsQuery: _events,
    q.EventsAtQuery: lambda tx, query: {
        row.sequence: row
        for row in tx.named(EVENTS, {(query.stream, sequence) for sequence in query.sequences}).values()
    },
    q.RecordPartitionsQuery: lambda tx, query: homes_of(tx, query.stream, query.records),
    q.StreamsQuery: lambda tx, query: tx.scan(
        STREAMS, () if query.stream is None else (query.stream,), limit=query.limit
    ),
    q.TokensQuery: lambda tx, _: all_tokens(tx),
    q.TokenBySecretQuery: lambda tx, query: token_of(tx, query.digest),
    q.TokenByNameQuery: lambda tx, query: token_named(tx, query.name),
    InspectQuery: inspect,
    PointersQuery: pointers,
}
