"""Nodes: who is there, what each should look at, what each did (protocol rules 1 and 16, L10).

A node is known by an incarnation, a random text for each start of a process, so that a restarted one is never taken for
its predecessor. Its heartbeat raises a counter; whether a node is dead is for others to judge by their own clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from itinerary.errors import StoreError
from itinerary.model.heartbeat import Beat, alive, died
from itinerary.model.rows import NodeNumber, NodeRow, Ref, StatisticsRow
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.tables import MAIL, NODES, STATISTICS, SWEEP
from itinerary.stores.transaction import Transaction

__all__ = ["beat", "join", "leave", "note_statistics"]

_NODES_MAX: Final = 1_000
_MAIL_MAX: Final = 10_000
_REMEMBERED_FOR: Final = 3_600_000_000


def join(tx: Transaction, incarnation: str, name: str, about: str) -> NodeNumber:
    """Give a new incarnation its number; asked again, it is the same."""
    tx.gate()
    created = tx.add(NODES, [NodeRow(NodeNumber(0), incarnation, name, about, tx.now(), beat_at=tx.now())])
    row = created[0] if created else tx.named(NODES, [(incarnation,)])[incarnation,]
    return row.number


def beat(tx: Transaction, node: NodeNumber, seen: Collection[Ref], about: str | None) -> Beat:
    """Say that a node is there, and what there is to know of it if that is new; throw away the mail that it has `seen`,
    and hear the news."""
    tx.gate()
    now = tx.now()
    row = _present(tx, node)
    about = about or (row.about if row.left_at is None else alive(row.about))
    row = replace(row, counter=row.counter + 1, beat_at=now, left_at=None, about=about)
    tx.save(NODES, [row], ("counter", "beat_at", "left_at", "about"))
    if seen:
        tx.remove(MAIL, [(node, ref) for ref in sorted(seen)])
    nodes = tx.scan(NODES, limit=_NODES_MAX, newest_first=True)
    return Beat(
        now,
        revision_of(tx),
        tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark,
        tuple(other for other in nodes if other.left_at is None or other.left_at > now - _REMEMBERED_FOR),
        tuple(mail.ref for mail in tx.scan(MAIL, (node,), limit=_MAIL_MAX)),
    )


def leave(tx: Transaction, node: NodeNumber, counter: int | None) -> bool:
    """Say that a node is gone: it exited, or others have seen it dead and taken everything from it.

    Others name the `counter` that they judged by, and the row says then that the node died. A node that has sent a
    heartbeat since stays, and keeps its mail.
    """
    tx.gate()
    row = _present(tx, node)
    if counter is not None and row.counter != counter:
        return False
    if row.left_at is None:
        about = row.about if counter is None else died(row.about)
        tx.save(NODES, [replace(row, left_at=tx.now(), about=about)], ("left_at", "about"))
    tx.remove(MAIL, [(node,)])
    return True


def note_statistics(tx: Transaction, rows: Sequence[StatisticsRow]) -> None:
    """Keep what a loop did; repeated, it is kept once."""
    tx.gate()
    tx.add(STATISTICS, rows)


def _present(tx: Transaction, node: NodeNumber) -> NodeRow:
    row = tx.lock(NODES, [(node,)]).get((node,))
    if row is None:
        raise StoreError(f"node {node} has not joined this store; join it first")
    return row
