"""The rescuer: takes over the work of dead nodes (protocol rules 16, 17).

A node is dead when it has reported that it leaves. A node is also dead when its heartbeat counter has not changed
during a whole timeout on the observer's own clock. The observation restarts whenever the observer itself has lost
contact with the store. Otherwise the first node back after a store outage would declare all others dead. A node that
was declared dead and sends heartbeats again was only frozen or disconnected. The work that others took over from it
stays with them, and the node is observed like any other.

A decision can be out of date when it takes effect: the rescue reads first, and its calls may hang or be repeated. Every
takeover therefore names the heartbeat counter of the decision, and the store refuses it if the counter has changed. The
rescuer then stops this rescue, and the next heartbeat restarts the observation.

A table in `core.recovery.rescue` decides about the work. Any node may start an unstarted occurrence. A started
occurrence resumes elsewhere, runs again, or is `orphaned`. The rescued occurrences have no owner until a node with room
takes them over.

The answer to a heartbeat lists nodes that left within the last hour. A node may have left earlier, with work and
without any other node present. The rescuer finds such nodes by one search for owners that are gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from itinerary.core.recovery.rescue import RescueOutcome, released, rescued
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.queries import ActiveQuery, DetailsQuery, NodesQuery
from itinerary.model.rows import NodeNumber, NodeRow, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL
from itinerary.model.writes import LastBeat, Refusal, Refused, Written
from itinerary.ports import Clock, Store
from itinerary.runtime import outcome_events as settling
from itinerary.runtime.outcome_events import Tell, nobody

__all__ = ["MISSES_MAX", "Rescuer"]

MISSES_MAX: Final = 3
"""Heartbeats that a node may miss before it is declared dead."""
_ACTIVE_MAX: Final = 1_000_000
_AT_ONCE: Final = 1_000
_LOOKS: Final = 3
"""The most reads of a dead node's occurrences, until none are left."""
_FIELDS: Final = {
    RescueOutcome.RELEASED: "released",
    RescueOutcome.GOES_ON: "going_on",
    RescueOutcome.ADOPTED: "adopted",
    RescueOutcome.RERUN: "rerun",
    RescueOutcome.ORPHANED: "orphaned",
}
"""The log field that counts each fate."""


class Rescuer:
    """The failure detector for other nodes, and the takeover of their work."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: Clock,
        log: Any,
        plans: Callable[[], PlanCache] = lambda: PlanCache(Timeline()),
        notify: Tell = nobody,
    ) -> None:
        """Create a rescuer.

        Args:
            store: The store to read and write.
            node: This node.
            settings: The settings of the node.
            clock: The clock for the observation.
            log: The log of the node.
            plans: Returns the plans of the jobs, which show whether hooks need to be called at the end.
            tell: Receives an event for each occurrence that the rescue ends.
        """
        self._store, self._node, self._clock, self._log, self._plans = store, node, clock, log, plans
        self._notify = notify
        self._timeout = settings.node_heartbeat_interval * MISSES_MAX
        self._seen: dict[NodeNumber, tuple[int, int]] = {}
        self._heard: set[NodeNumber] = set()
        """The nodes whose counter has increased since this node observes them."""
        self._heard_at = clock.elapsed()
        self._dead: dict[NodeNumber, NodeRow] = {}
        """The rows of the dead nodes at the time of the decision, with their names and heartbeat counters."""
        self._has_dead = asyncio.Event()
        self._rescued: set[NodeNumber] = set()
        self._has_looked_back = False

    def handle(self, beat: HeartbeatReply, *, was_out_of_touch: bool = False) -> frozenset[NodeNumber]:
        """Handle the answer to a heartbeat.

        Args:
            beat: The answer.
            was_out_of_touch: True if this node had lost contact with the store before.

        Returns:
            The dead nodes.
        """
        now = self._clock.elapsed()
        if was_out_of_touch or now - self._heard_at > self._timeout // 2:
            self._seen = {number: (counter, now) for number, (counter, _) in self._seen.items()}
            self._dead.clear()
            self._heard.clear()
            self._has_looked_back = False
        self._heard_at = now
        for other in beat.nodes:
            if other.number != self._node:
                self._judge(other, now)
        if self._dead or not self._has_looked_back:
            self._has_dead.set()
        return frozenset(self._dead) | self._rescued

    def knows(self, node: NodeNumber | None) -> bool:
        """True if this node knows whether another node is alive: it has seen a heartbeat, or has rescued the node.

        Otherwise the node may be dead, and no other component may decide about its work yet.
        """
        return node in (None, self._node) or node in self._heard or node in self._rescued

    def _judge(self, other: NodeRow, now: int) -> None:
        counter, since = self._seen.get(other.number, (-1, now))
        if counter != other.counter:
            since = now
            self._dead.pop(other.number, None)
            if counter >= 0:
                self._heard.add(other.number)
            if other.left_at is None:
                self._rescued.discard(other.number)
        self._seen[other.number] = other.counter, since
        is_dead = other.left_at is not None or now - since >= self._timeout
        if is_dead and other.number not in self._rescued:
            self._dead[other.number] = other
            self._heard.discard(other.number)

    async def run(self) -> None:
        """Take over the work of dead nodes until cancelled.

        If the store does not answer, the next heartbeat starts the rescue again. The node may be alive by then.
        """
        while True:
            await self._has_dead.wait()
            self._has_dead.clear()
            if not self._has_looked_back:
                await self._look_back()
            for number, judged in list(self._dead.items()):
                if self._dead.get(number) != judged:
                    continue  # the node has sent a heartbeat since
                try:
                    is_gone = await self._rescue(judged)
                except StoreError as error:
                    self._log.warning("rescue.failed", node=judged.name, error=str(error), hint="it is tried again")
                    continue
                self._dead.pop(number, None)
                if is_gone:
                    self._rescued.add(number)
                else:
                    hint = "the node sent a heartbeat after it was judged to be dead; it is observed anew"
                    self._log.info("rescue.called_off", node=judged.name, hint=hint)

    async def settle_gone(self, is_gone: Callable[[str], bool]) -> frozenset[NodeNumber]:
        """Take over the work of nodes that have not left, but whose processes are provably gone.

        This does not wait for missed heartbeats.

        Args:
            is_gone: True if a node's description proves that its process no longer exists.

        Returns:
            The nodes whose work was taken over.
        """
        try:
            others = [node for node in await self._store.read(NodesQuery()) if node.number != self._node]
            for other in others:
                if other.left_at is None and is_gone(other.about) and await self._rescue(other):
                    self._dead.pop(other.number, None)
                    self._rescued.add(other.number)
        except StoreError as error:
            self._log.warning("rescue.failed", node=None, error=str(error), hint="it is tried again")
        return frozenset(self._rescued)

    async def _look_back(self) -> None:
        """Find nodes that left long ago and still own occurrences."""
        try:
            owners = {row.owner for row in await self._store.read(ActiveQuery(limit=_ACTIVE_MAX, with_queued=False))}
            nodes = await self._store.read(NodesQuery())
        except StoreError as error:
            self._log.warning("rescue.failed", node=None, error=str(error), hint="it is tried again")
            return
        self._has_looked_back = True
        for node in nodes:
            if node.left_at is not None and node.number in owners and node.number != self._node:
                self._dead.setdefault(node.number, node)

    async def _rescue(self, judged: NodeRow) -> bool:
        """Take over all work of a dead node, then record that it has left.

        The work is read several times. A node that is still alive may start or write something between the read and the
        write, and the store then refuses the write. Returns False if the node is alive.
        """
        is_alive = False
        came_to: Counter[RescueOutcome] = Counter()
        for _ in range(_LOOKS):
            rows = await self._store.read(ActiveQuery(limit=_ACTIVE_MAX, with_queued=False))
            theirs = [row for row in rows if row.owner == judged.number]
            if not theirs or is_alive:
                break
            for first in range(0, len(theirs), _AT_ONCE):
                fates, is_alive = await self._take(judged, theirs[first : first + _AT_ONCE])
                came_to += fates
                if is_alive:
                    break
        if came_to:
            self._log.warning("node.rescued", node=judged.name, **{_FIELDS[fate]: came_to[fate] for fate in _FIELDS})
        return not is_alive and await self._store.leave(judged.number, judged.counter)

    async def _take(self, judged: NodeRow, theirs: Sequence[OccurrenceRow]) -> tuple[Counter[RescueOutcome], bool]:
        """Take over some occurrences of a dead node.

        Returns their fates, and whether the node is alive. Between the two reads, another node may have taken over some
        of them. Occurrences that the dead node no longer owns are left alone.
        """
        why, number = f"node {judged.name} is gone", judged.number
        begun = tuple(row.ref for row in theirs if row.started_at is not None)
        details = await self._store.read(DetailsQuery(begun)) if begun else ()
        plans = self._plans()
        rescues = [released(row, why) for row in theirs if row.started_at is None]
        begun_there = [one for one in details if one.row.owner == number and one.row.status not in FINAL]
        rescues += [rescued(one, why, plans.readable(one.row)) for one in begun_there]
        last_beat = LastBeat(number, judged.counter)
        writes = [replace(rescue.write, dead_since=last_beat) for rescue in rescues]
        answers = await self._store.intervene(self._node, writes)
        self._notify(settling.ended(plans.timeline, theirs, writes, answers))
        fates = Counter(
            rescue.fate for rescue, answer in zip(rescues, answers, strict=True) if isinstance(answer, Written)
        )
        is_alive = any(isinstance(answer, Refused) and answer.why is Refusal.ALIVE for answer in answers)
        return fates, is_alive
