"""The watcher: says that the node is there, and hears what others want of it (L12, PROTOCOL 16, 25).

A heartbeat is one round trip, and its answer has all that a node must hear regularly: the store's time, the revision of
the timeline, mail about its own occurrences, the other nodes. Between two heartbeats it listens: whatever is told on a
topic of this node brings the next heartbeat forward, so a request reaches the node at once.

Mail is thrown away first, and what it was about is read afterwards: a request that comes in between is in what is read
then, or is new mail.

Once a second it looks for work that anybody may do: nobody's occurrences, those that wait for a node with room, and
those that lie unstarted since `takeover_after`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from itinerary.core.messages import ClockDoubted, ClockJumped, JobChanged, RowsRead, WorkOffered
from itinerary.errors import StoreError
from itinerary.model.nodes import Beat
from itinerary.model.queries import Active, ByRef, Standing, Waiting
from itinerary.model.rows import NodeNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import OccurrenceState
from itinerary.ports import Store
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.patience import Patience
from itinerary.schedules.durations import SECOND

__all__ = ["Watcher"]

TIMELINE_TOPIC: Final = "timeline"
_LOOK_INTERVAL: Final = 1.0
_OFFERS_MAX: Final = 500
_UNSTARTED: Final = frozenset({OccurrenceState.PRERUN, OccurrenceState.PENDING})


class Watcher:
    """A node's eyes and ears."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: StoreClock,
        inbox: Inbox,
        *,
        on_beat: Callable[[Beat], None],
        log: Any,
    ) -> None:
        self._store, self._node, self._settings, self._clock, self._inbox = store, node, settings, clock, inbox
        self._on_beat, self._log = on_beat, log
        self._is_called = asyncio.Event()
        self._asked: list[Ref] = []
        self._revision = -1
        self._was_in_doubt = False

    def look(self, refs: Sequence[Ref]) -> None:
        """Read these occurrences, now."""
        self._asked += refs
        self._is_called.set()

    async def run(self) -> None:
        """Watch, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_for_ever(), name="heartbeat")
            group.create_task(self._listen(), name="listening")
            group.create_task(self._look_for_work(), name="looking for work")

    # -- heartbeats and mail -----------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        patience = Patience("watcher", self._log)
        while True:
            await self._beat(patience)
            try:
                async with asyncio.timeout(self._settings.node_heartbeat_interval / SECOND):
                    await self._is_called.wait()
            except TimeoutError:
                pass
            self._is_called.clear()

    async def _beat(self, patience: Patience) -> None:
        beat = await patience.ask(lambda: self._store.beat(self._node), "heartbeat")
        await self._hear(beat)
        asked, self._asked = self._asked, []
        if beat.mail:
            mail = beat.mail
            await self._hear(await patience.ask(lambda: self._store.beat(self._node, mail), "heartbeat"))
        if refs := dict.fromkeys((*beat.mail, *asked)):
            rows = await patience.ask(lambda: self._store.read(ByRef(tuple(refs))), "mail")
            await self._inbox.deliver(RowsRead(list(rows.values())))

    async def _hear(self, beat: Beat) -> None:
        await self._set_clock(beat.now)
        if beat.revision != self._revision:
            self._revision = beat.revision
            await self._inbox.deliver(JobChanged(beat.revision))
        self._on_beat(beat)

    async def _set_clock(self, store_now: int) -> None:
        before = self._clock.now()
        jumped = self._clock.observe(store_now)
        if jumped:
            await self._inbox.deliver(ClockJumped(jumped))
        elif self._clock.is_in_doubt and not self._was_in_doubt:
            await self._inbox.deliver(ClockDoubted(store_now - before))
            self._is_called.set()  # the next measurements decide
        elif self._was_in_doubt and not self._clock.is_in_doubt:
            await self._inbox.deliver(ClockJumped(0))
        elif self._clock.is_in_doubt:
            self._is_called.set()
        self._was_in_doubt = self._clock.is_in_doubt

    async def _listen(self) -> None:
        """What is told brings the next heartbeat forward."""
        mine = {TIMELINE_TOPIC, f"mail/{self._node}"}
        while True:
            try:
                async for topics in self._store.watch():
                    if topics & mine:
                        self._is_called.set()
            except StoreError as error:
                self._log.warning("watch.interrupted", error=str(error), hint="heartbeats go on, and find out later")
                await asyncio.sleep(_LOOK_INTERVAL)

    # -- work for anybody --------------------------------------------------------------------------------------------

    async def _look_for_work(self) -> None:
        while True:
            try:
                status = await self._store.read(Standing())
                await self._set_clock(status.now)
                rows = await self._open_to_anybody(status.now)
            except StoreError as error:
                self._log.debug("watch.no_offers", error=str(error))
            else:
                if rows:
                    await self._inbox.send(WorkOffered(rows))
            await asyncio.sleep(_LOOK_INTERVAL)

    async def _open_to_anybody(self, now: int) -> list[OccurrenceRow]:
        waiting = await self._store.read(Waiting(now, _OFFERS_MAX))
        overdue = await self._store.read(Active(None, now - self._settings.takeover_after, _OFFERS_MAX))
        left = [
            row
            for row in overdue
            if row.started_at is None and row.status in _UNSTARTED and row.owner not in (None, self._node)
        ]
        return [*waiting, *left]
