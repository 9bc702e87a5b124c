"""The rescuer: what becomes of the work of nodes that are dead (protocol rules 16, 17).

A node is dead when it has said that it leaves, or when its heartbeat counter has not changed during a whole timeout on
the observer's own clock. The observation starts anew whenever the observer itself has been out of touch: else the first
node back from an outage of the store would declare all others dead. One that was taken for dead and is heard of again
was only frozen, or cut off: what was taken from it stays taken, and it is watched like any other.

A judgement can be out of date when it is acted on: the rescue reads first, and its calls may hang or be repeated. So
each takeover names the heartbeat counter that the judgement was made by, and the store refuses it if the counter has
moved on. The rescuer then calls the rescue off, and the next heartbeat starts the observation anew.

One table in `core.recovery.rescue` decides about its work: any node may start what had not started; what had
begun goes on elsewhere, is run again, or is `orphaned`. All of it is nobody's then, and whoever has room takes it up.

A heartbeat speaks of those who left within the last hour. One that left before that, when nobody else was there, and
left work behind, is found by looking back once: at who has work, and is gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from itinerary.core.recovery.rescue import Fate, released, rescued
from itinerary.core.timeline.job_plan import PlanBook
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import StoreError
from itinerary.model.heartbeat import Beat
from itinerary.model.queries import Active, Details, Nodes
from itinerary.model.rows import NodeNumber, NodeRow, OccurrenceRow
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL
from itinerary.model.writes import LastBeat, Refusal, Refused, Written
from itinerary.ports import Clock, Store
from itinerary.runtime import outcome_events as settling
from itinerary.runtime.outcome_events import Tell, nobody

__all__ = ["MISSES_MAX", "Rescuer"]

MISSES_MAX: Final = 3
"""How many heartbeats a node may miss before it is taken for dead."""
_ACTIVE_MAX: Final = 1_000_000
_AT_ONCE: Final = 1_000
_LOOKS: Final = 3
"""How often what a dead node has is looked at, until nothing is left."""
_FIELDS: Final = {
    Fate.RELEASED: "released",
    Fate.GOES_ON: "going_on",
    Fate.ADOPTED: "adopted",
    Fate.RERUN: "rerun",
    Fate.ORPHANED: "orphaned",
}
"""How many of which fate, as it is said in the log."""


class Rescuer:
    """Watches the other nodes."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: Clock,
        log: Any,
        plans: Callable[[], PlanBook] = lambda: PlanBook(Timeline()),
        tell: Tell = nobody,
    ) -> None:
        """`plans` are those of the jobs, as they are known here: they say whether hooks want to hear of an end."""
        self._store, self._node, self._clock, self._log, self._plans = store, node, clock, log, plans
        self._tell = tell
        self._timeout = settings.node_heartbeat_interval * MISSES_MAX
        self._seen: dict[NodeNumber, tuple[int, int]] = {}
        self._heard: set[NodeNumber] = set()
        """Whose counter has gone up since this node watches."""
        self._heard_at = clock.elapsed()
        self._dead: dict[NodeNumber, NodeRow] = {}
        """As they were when they were judged: their names, and the counters that the judgement was made by."""
        self._has_dead = asyncio.Event()
        self._rescued: set[NodeNumber] = set()
        self._has_looked_back = False

    def hear(self, beat: Beat, *, was_out_of_touch: bool = False) -> frozenset[NodeNumber]:
        """The answer to a heartbeat has come. Returns who is dead."""
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
        """Whether it is known of a node if it lives: it has been heard of, or has been rescued. Else it may be dead,
        and what it has is not for others to judge before that is certain."""
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
        """Take from the dead, for ever. If the store does not answer, that is for the next heartbeat to begin again:
        whoever seemed dead before may be well by then."""
        while True:
            await self._has_dead.wait()
            self._has_dead.clear()
            if not self._has_looked_back:
                await self._look_back()
            for number, judged in list(self._dead.items()):
                if self._dead.get(number) != judged:
                    continue  # it has been heard of meanwhile
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
        """Take the work of nodes that have not left, and whose processes are provably gone: no silence is needed.

        Args:
            is_gone: Whether a node's process no longer exists, by what the node told of itself.

        Returns:
            The nodes whose work is settled.
        """
        try:
            others = [node for node in await self._store.read(Nodes()) if node.number != self._node]
            for other in others:
                if other.left_at is None and is_gone(other.about) and await self._rescue(other):
                    self._dead.pop(other.number, None)
                    self._rescued.add(other.number)
        except StoreError as error:
            self._log.warning("rescue.failed", node=None, error=str(error), hint="it is tried again")
        return frozenset(self._rescued)

    async def _look_back(self) -> None:
        """Find who left long ago, and has work still."""
        try:
            owners = {row.owner for row in await self._store.read(Active(limit=_ACTIVE_MAX, with_lines=False))}
            nodes = await self._store.read(Nodes())
        except StoreError as error:
            self._log.warning("rescue.failed", node=None, error=str(error), hint="it is tried again")
            return
        self._has_looked_back = True
        for node in nodes:
            if node.left_at is not None and node.number in owners and node.number != self._node:
                self._dead.setdefault(node.number, node)

    async def _rescue(self, judged: NodeRow) -> bool:
        """Take everything from a node that is dead, then say that it is gone. What it has is looked at more than once:
        if it was not quite dead, it may have started or written something between the look and the write, and what
        was made for the moment before is refused. False if the node turns out to be alive."""
        is_alive = False
        came_to: Counter[Fate] = Counter()
        for _ in range(_LOOKS):
            rows = await self._store.read(Active(limit=_ACTIVE_MAX, with_lines=False))
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

    async def _take(self, judged: NodeRow, theirs: Sequence[OccurrenceRow]) -> tuple[Counter[Fate], bool]:
        """Take these from a node that is dead. Returns what became of them, and whether the node is alive after all.
        Between the two looks another may have rescued some, and a third have taken them up: what is no longer the dead
        one's is left alone."""
        why, number = f"node {judged.name} is gone", judged.number
        begun = tuple(row.ref for row in theirs if row.started_at is not None)
        details = await self._store.read(Details(begun)) if begun else ()
        plans = self._plans()
        rescues = [released(row, why) for row in theirs if row.started_at is None]
        begun_there = [one for one in details if one.row.owner == number and one.row.status not in FINAL]
        rescues += [rescued(one, why, plans.readable(one.row)) for one in begun_there]
        last_beat = LastBeat(number, judged.counter)
        writes = [replace(rescue.write, dead_since=last_beat) for rescue in rescues]
        answers = await self._store.intervene(self._node, writes)
        self._tell(settling.ended(plans.timeline, theirs, writes, answers))
        fates = Counter(
            rescue.fate for rescue, answer in zip(rescues, answers, strict=True) if isinstance(answer, Written)
        )
        is_alive = any(isinstance(answer, Refused) and answer.why is Refusal.ALIVE for answer in answers)
        return fates, is_alive
