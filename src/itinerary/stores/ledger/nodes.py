"""Nodes: the present ones, their mail and their statistics (protocol rules 1 and 16, L10).

An incarnation, a random text for each start of a process, identifies a node. So a restarted node is never taken for its
predecessor. Its heartbeat raises a counter. Other nodes decide by their own clocks whether a node is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from msgspec.structs import replace

from itinerary.errors import StoreError
from itinerary.model.heartbeat import HeartbeatReply, alive, died
from itinerary.model.rows import NodeNumber, NodeRow, Ref, StatisticsRow
from itinerary.stores.ledger.claim import THE_ONE, revision_of
from itinerary.stores.tables import MAIL, NODES, STATISTICS, SWEEP
from itinerary.stores.transaction import Transaction

__all__ = ["beat", "join", "leave", "note_statistics"]

_NODES_MAX: Final = 1_000
_MAIL_MAX: Final = 10_000
_REMEMBERED_FOR: Final = 3_600_000_000


def join(tx: Transaction, incarnation: str, name: str, about: str) -> NodeNumber:
    """Return the number of an incarnation. A repeated call returns the same number."""
    tx.gate()
    created = tx.add(NODES, [NodeRow(NodeNumber(0), incarnation, name, about, tx.now(), beat_at=tx.now())])
    row = created[0] if created else tx.named(NODES, [(incarnation,)])[incarnation,]
    return row.number


def beat(tx: Transaction, node: NodeNumber, seen: Collection[Ref], about: str | None) -> HeartbeatReply:
    """Record a heartbeat of a node, delete the mail that it has `seen`, and return the news for it.

    Args:
        tx: The transaction.
        node: The node.
        seen: The occurrences whose mail the node has read.
        about: A new description of the node; None keeps the old one.
    """
    tx.gate()
    now = tx.now()
    row = _present(tx, node)
    about = about or (row.about if row.left_at is None else alive(row.about))
    row = replace(row, counter=row.counter + 1, beat_at=now, left_at=None, about=about)
    tx.save(NODES, [row], ("counter", "beat_at", "left_at", "about"))
    if seen:
        tx.remove(MAIL, [(node, ref) for ref in sorted(seen)])
    nodes = tx.scan(NODES, limit=_NODES_MAX, newest_first=True)
    return HeartbeatReply(
        now,
        revision_of(tx),
        tx.get(SWEEP, [THE_ONE])[THE_ONE].watermark,
        tuple(other for other in nodes if other.left_at is None or other.left_at > now - _REMEMBERED_FOR),
        tuple(mail.ref for mail in tx.scan(MAIL, (node,), limit=_MAIL_MAX)),
    )


def leave(tx: Transaction, node: NodeNumber, counter: int | None) -> bool:
    """Mark a node as gone: it exited, or others found it dead and took over all its work.

    A node that has sent a heartbeat since `counter` stays, and keeps its mail.

    Args:
        tx: The transaction.
        node: The node.
        counter: The heartbeat counter by which others judged it dead. None if the node itself leaves.

    Returns:
        False if the node has sent a heartbeat since.
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
    """Store the statistics of a loop. A repeated row is stored once."""
    tx.gate()
    tx.add(STATISTICS, rows)


def _present(tx: Transaction, node: NodeNumber) -> NodeRow:
    row = tx.lock(NODES, [(node,)]).get((node,))
    if row is None:
        raise StoreError(f"node {node} has not joined this store; join it first")
    return row
