"""Is the run in an overlap slot still alive? The evidence is the heartbeat of its node (protocol rules 13, 14 and 16).

The row of an occurrence says "running" until its end is written, or until another node finds its owner dead. Between a
crash and that moment the row is wrong, and so is any decision by it. An instant that is skipped because it "overlaps" a
dead run is a lost run. So a skip needs evidence, from the same transaction:

    the caller is the owner                             it asks, so it is alive: skip
    the owner sent a heartbeat after the due instant    it was alive and running then: skip
    the owner sent no heartbeat since                   the instant waits as `pending`, and the owner is asked for a
                                                        heartbeat; a live node answers within a moment
    the owner has left, or its work is lost             the instant waits until that is written

The wait always ends. A live owner sends a heartbeat: then the instant is skipped, as it should be. A dead owner is
detected by its silence (protocol rule 16), at the latest by the node that asks. Then the run is orphaned, the slot is
free, and the instant starts. No node clock is compared here: heartbeats and due instants are both store time.

The same holds for `queue` when the queue is full. With `replace`, a newer instant replaces an older one in the queue at
once, whether the run is dead or not. Only while the heartbeat of the run's node is late, nothing in the queue is
replaced. If the run turns out to be dead, those instants run in order.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.model.retries import is_lost
from itinerary.model.rows import NodeNumber, NodeRow, OccurrenceRow
from itinerary.model.states import TASK_FINAL
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger.unit_of_work import UnitOfWork
from itinerary.stores.tables import ATTEMPTS, NODES, TASKS

__all__ = ["OverlapOwners"]

_INTERVAL: Final = 5 * SECOND
"""The heartbeat interval of a node that does not state its own."""
_LATE_AFTER: Final = 2
"""The number of intervals after which a heartbeat is late."""
_ASKED_EVERY: Final = SECOND
"""The shortest time between two requests for a heartbeat, however many instants wait."""
_ROWS_MAX: Final = 10_000
_GONE: Final = "its node is gone, and its end is not written yet"


class _About(msgspec.Struct):
    """The part of a node's description that matters here."""

    heartbeat_interval: int = _INTERVAL


class OverlapOwners:
    """The nodes of runs that block other occurrences, as one transaction sees them."""

    def __init__(self, pages: UnitOfWork) -> None:
        self._pages = pages
        self._known: dict[NodeNumber, NodeRow | None] = {}

    def doubt(self, holder: OccurrenceRow, due_at: int) -> str | None:
        """Return the reason why a run may not have been running at an instant, or None if it certainly was.

        Args:
            holder: The occurrence in the overlap slot.
            due_at: The due time of the occurrence that would be skipped.
        """
        if holder.started_at is None:
            return None  # the slot was handed over, and some node starts it soon
        if holder.touched_by is not None and self._is_given_up(holder):
            return _GONE
        node = self._node(holder)
        if node is None or node.number == self._pages.by:
            return None
        since = max(due_at, holder.started_at)
        if node.left_at is None and since <= node.beat_at <= self._pages.now:
            return None
        return self.silence(holder)

    def is_silent(self, holder: OccurrenceRow) -> bool:
        """True if the node of a run has left, or its heartbeat is late."""
        node = self._node(holder)
        if holder.started_at is None or node is None or node.number == self._pages.by:
            return False
        return node.left_at is not None or self._pages.now - node.beat_at > _LATE_AFTER * _interval(node)

    def silence(self, holder: OccurrenceRow) -> str:
        """Describe the state of the node of a run."""
        node = self._node(holder)
        assert node is not None, "a silent node has a row"
        return _GONE if node.left_at is not None else f"node {node.name} has not been heard of since"

    def should_be_asked(self, holder: OccurrenceRow) -> bool:
        """True if the node of a run may be asked for a heartbeat."""
        node = self._node(holder)
        return node is not None and node.left_at is None and self._pages.now - node.beat_at >= _ASKED_EVERY

    def _node(self, holder: OccurrenceRow) -> NodeRow | None:
        """Return the row of a run's owner, or None if the run has no owner and waits for a node to resume it."""
        if holder.owner is None:
            return None
        if holder.owner not in self._known:
            self._known[holder.owner] = self._pages.tx.get(NODES, [(holder.owner,)]).get((holder.owner,))
        return self._known[holder.owner]

    def _is_given_up(self, holder: OccurrenceRow) -> bool:
        """True if a run was lost with its node, and only its hooks remain (protocol rule 17)."""
        tx = self._pages.tx
        tasks = tx.scan(TASKS, (holder.ref,), limit=_ROWS_MAX)
        if not tasks or any(task.status not in TASK_FINAL for task in tasks):
            return False
        return any(is_lost(attempt) for attempt in tx.scan(ATTEMPTS, (holder.ref,), limit=_ROWS_MAX))


def _interval(node: NodeRow) -> int:
    try:
        return msgspec.json.decode(node.about, type=_About).heartbeat_interval
    except msgspec.MsgspecError:
        return _INTERVAL
