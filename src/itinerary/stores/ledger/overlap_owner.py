"""Does the run in a job's slot still run? What the heartbeats of its node prove (protocol rules 13, 14 and 16).

A row says that an occurrence runs until its end is written, or until another node finds out that its owner is dead.
Between a crash and that moment the row is wrong. Whatever is decided by it is wrong too: an instant that is skipped
because it "overlaps" a dead run is a lost run. So a skip needs a proof, and it is looked for in the same transaction:

    the asker is the owner                              it asks, so it lives: skip
    the owner was heard of since the instant was due    it was alive then, and was running this: skip
    the owner was not heard of since                    the instant waits as `pending`, and the owner is asked for a
                                                        heartbeat; a living node answers within a moment
    the owner has left, or its work is lost             the instant waits until that is written down

The wait ends by itself. A living owner beats: then the instant is skipped, as it should be. A dead one is found out by
its silence (protocol rule 16) by the node that asks, at the latest: then the run is orphaned, the slot is free, and the
instant starts. No clock of a node is compared here: heartbeats and due instants are both times of the store.

The same holds for `queue`, where the queue is full. `replace` differs: a newer instant must replace an older one in the
queue at once, whether the run is dead or not. Only while the run's node is late with its heartbeat nothing in the queue
is replaced: those instants run one after the other, if the run turns out to be dead.
"""

from __future__ import annotations

from typing import Final

import msgspec

from itinerary.model.retries import is_lost
from itinerary.model.rows import NodeNumber, NodeRow, OccurrenceRow
from itinerary.model.states import TASK_FINAL
from itinerary.schedules.durations import SECOND
from itinerary.stores.ledger.unit_of_work import Pages
from itinerary.stores.tables import ATTEMPTS, NODES, TASKS

__all__ = ["Owners"]

_INTERVAL: Final = 5 * SECOND
"""How often a node is heard of that does not say so."""
_LATE_AFTER: Final = 2
"""A node is late with its heartbeat after so many intervals."""
_ASKED_EVERY: Final = SECOND
"""A node is asked for a heartbeat at most so often, however many instants wait for it."""
_ROWS_MAX: Final = 10_000
_GONE: Final = "its node is gone, and its end is not written yet"


class _About(msgspec.Struct):
    """What a node says of itself, as far as it matters here."""

    heartbeat_interval: int = _INTERVAL


class Owners:
    """The nodes of runs that are in the way of others, as one transaction sees them."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._known: dict[NodeNumber, NodeRow | None] = {}

    def doubt(self, holder: OccurrenceRow, due_at: int) -> str | None:
        """Why it is not certain that a run was still running at an instant; None: it was.

        Args:
            holder: The occurrence in the job's slot.
            due_at: When the one that would be skipped for it was due.
        """
        if holder.started_at is None:
            return None  # it was handed the slot, and is about to start: on any node
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
        """True if the node of a run has left, or is late with its heartbeat."""
        node = self._node(holder)
        if holder.started_at is None or node is None or node.number == self._pages.by:
            return False
        return node.left_at is not None or self._pages.now - node.beat_at > _LATE_AFTER * _interval(node)

    def silence(self, holder: OccurrenceRow) -> str:
        """Describe what is known of the node of a run."""
        node = self._node(holder)
        assert node is not None, "a silent node has a row"
        return _GONE if node.left_at is not None else f"node {node.name} has not been heard of since"

    def should_be_asked(self, holder: OccurrenceRow) -> bool:
        """True if the node of a run may be asked for a heartbeat."""
        node = self._node(holder)
        return node is not None and node.left_at is None and self._pages.now - node.beat_at >= _ASKED_EVERY

    def _node(self, holder: OccurrenceRow) -> NodeRow | None:
        """The row of a run's owner; None: no node has it, and one with room will go on with it."""
        if holder.owner is None:
            return None
        if holder.owner not in self._known:
            self._known[holder.owner] = self._pages.tx.get(NODES, [(holder.owner,)]).get((holder.owner,))
        return self._known[holder.owner]

    def _is_given_up(self, holder: OccurrenceRow) -> bool:
        """True if a run was lost with its node, and only its hooks are still to be told (protocol rule 17)."""
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
