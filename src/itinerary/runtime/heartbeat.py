"""The watcher: sends the heartbeat of the node, and receives the requests for it (L12, protocol rules 16, 25).

A heartbeat is one round trip. Its answer has everything that a node needs regularly: the store's time, the revision of
the timeline, mail about its own occurrences, the other nodes. Between two heartbeats the watcher listens. A
notification on a topic of this node brings the next heartbeat forward, so a request reaches the node at once.

The watcher deletes mail first and then reads the occurrences that the mail names. A request that arrives in between is
either part of the rows that are read, or new mail.

Several times between two heartbeats, the watcher looks for work that any node may do:

    occurrences without an owner                     unstarted occurrences older than `takeover_after`
    occurrences that wait for a node with room       started occurrences of dead nodes

Other nodes declare this node dead when the store has received no heartbeat during a whole timeout. Shortly before that,
the watcher notifies the loop: work that other nodes would run again must not run here (protocol rule 18). The time
counts from the moment when the last answered heartbeat was sent, because the store received it then or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from itinerary.core.loop.messages import (
    ClockDoubted,
    ClockJumped,
    JobChanged,
    RowsRead,
    StoreContactLost,
    StoreContactRestored,
    WorkOffered,
)
from itinerary.errors import StoreError
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.queries import ByRefQuery, OpenQuery
from itinerary.model.rows import NodeNumber, Ref
from itinerary.model.settings import Settings
from itinerary.ports import Store
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.clock_jumps import ONLY_DOUBTED, WAS_SET, WENT_BACK, ClockJumps
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.rescuer import MISSES_MAX
from itinerary.runtime.store_outages import StoreAbsences
from itinerary.runtime.store_retry import StoreRetry
from itinerary.runtime.suspend_detection import SuspendDetector
from itinerary.runtime.sweeper import LOOKS
from itinerary.schedules.durations import SECOND

__all__ = ["Calls", "Heartbeat"]

TIMELINE_TOPIC: Final = "timeline"
_DOUBT_INTERVAL: Final = 0.1
"""Seconds between two heartbeats while the clock is in doubt. Shorter intervals would load the store too much."""
_OFFERS_MAX: Final = 500


class Calls(NamedTuple):
    """The functions that a watcher calls."""

    on_beat: Callable[[HeartbeatReply, bool], Awaitable[None]]
    """Called with the answer to each heartbeat, and whether this node had lost contact with the store before it."""
    on_look: Callable[[int, int], None]
    """Called with each look for work: the store's time, and the watermark up to which everything is decided."""
    about: Callable[[], str]
    """Returns the description of this node for other nodes."""


class Heartbeat:
    """The component that sends heartbeats, reads mail and looks for work."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: StoreClock,
        inbox: Inbox,
        *,
        calls: Calls,
        log: Any,
    ) -> None:
        self._store, self._node, self._settings, self._clock, self._inbox = store, node, settings, clock, inbox
        self._calls, self._log = calls, log
        self._standstill = SuspendDetector(clock, settings.node_heartbeat_interval)
        self.jumps = ClockJumps()
        self.absences = StoreAbsences()
        self._unanswered_at: int | None = None
        """The start of the current store outage, in store time."""
        self._told: str | None = None
        self._patience = StoreRetry("watcher", log, settings.node_heartbeat_interval)
        self._failures = 0
        self._heard_at = clock.elapsed()
        self._is_silent = False
        self._is_called = asyncio.Event()
        self._asked: list[Ref] = []
        self._revision = -1

    def look(self, refs: Sequence[Ref]) -> None:
        """Read these occurrences with the next heartbeat, which is sent now."""
        self._asked += refs
        self._is_called.set()

    async def greet(self) -> None:
        """Send the first heartbeat, and learn the other nodes, before the node claims anything."""
        await self._beat()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat_for_ever(), name="heartbeat")
            group.create_task(self._listen(), name="listening")
            group.create_task(self._look_for_work(), name="looking for work")
            group.create_task(self._mind_the_silence(), name="minding the silence")

    # -- heartbeats and mail -----------------------------------------------------------------------------------------

    async def _beat_for_ever(self) -> None:
        while True:
            await self._beat()
            usual = self._settings.node_heartbeat_interval / SECOND
            try:
                async with asyncio.timeout(_DOUBT_INTERVAL if self._clock.is_in_doubt else usual):
                    await self._is_called.wait()
            except TimeoutError:
                pass
            self._is_called.clear()

    async def _beat(self) -> None:
        beat = await self._heard()
        asked, self._asked = self._asked, []
        if beat.mail:
            await self._heard(beat.mail)
        if refs := tuple(dict.fromkeys((*beat.mail, *asked))):
            rows = await self._patience.ask(lambda: self._store.read(ByRefQuery(refs)), "mail")
            await self._inbox.deliver(RowsRead(list(rows.values())))

    async def _heard(self, seen: Sequence[Ref] = ()) -> HeartbeatReply:
        """Send one heartbeat, and pass its answer to the other components."""
        asked_at = self._clock.elapsed()
        beat = await self._patience.ask(lambda: self._speak(seen), "heartbeat")
        if self._is_silent:
            self._is_silent = False
            await self._inbox.deliver(StoreContactRestored())
        await self._set_clock(beat.now, asked_at)
        if beat.revision != self._revision:
            self._revision = beat.revision
            await self._inbox.deliver(JobChanged(beat.revision))
        await self._calls.on_beat(beat, self._patience.failures > self._failures)
        self._failures = self._patience.failures
        return beat

    async def _speak(self, seen: Sequence[Ref]) -> HeartbeatReply:
        asked_at, asked_now, about = self._clock.elapsed(), self._clock.now(), self._calls.about()
        try:
            beat = await self._store.beat(self._node, seen, None if about == self._told else about)
        except StoreError:
            self._unanswered()
            raise
        if self._clock.elapsed() - asked_at > self._settings.node_heartbeat_interval and self._unanswered_at is None:
            self._unanswered_at = asked_now  # the call hung, and was answered on another connection
        self._answered()
        self._heard_at, self._told = asked_at, about
        return beat

    def _unanswered(self) -> None:
        if self._unanswered_at is None:
            self._unanswered_at = self._clock.now()

    def _answered(self) -> None:
        if self._unanswered_at is not None:
            self.absences.note(self._unanswered_at, self._clock.now())
            self._unanswered_at = None

    async def _mind_the_silence(self) -> None:
        """Notify the loop, once, when only one heartbeat interval is left before other nodes declare this node dead.

        Also check regularly whether time has passed while this node was suspended.
        """
        interval = self._settings.node_heartbeat_interval
        while True:
            silent_for = self._clock.elapsed() - self._heard_at
            if silent_for >= (MISSES_MAX - 1) * interval and not self._is_silent:
                self._is_silent = True
                await self._inbox.deliver(StoreContactLost(silent_for))
            await self._standstill.turn()

    async def _set_clock(self, store_now: int, asked_at: int) -> None:
        before, was_in_doubt = self._clock.now(), self._clock.is_in_doubt
        jumped = self._clock.observe(store_now, asked_at)
        is_in_doubt = self._clock.is_in_doubt
        if jumped:
            self._standstill.forget()
            await self._jumped(jumped, WAS_SET)
        elif was_in_doubt and not is_in_doubt:
            await self._inbox.deliver(ClockJumped(0, ONLY_DOUBTED))
        elif is_in_doubt and not was_in_doubt:
            self._is_called.set()  # the next measurements decide
            await self._inbox.deliver(ClockDoubted(store_now - before))
        if went_back_by := self._clock.went_back_by():
            await self._jumped(went_back_by, WENT_BACK, is_absorbed=True)
        if not is_in_doubt and (stood_still := self._standstill.take()) is not None:
            await self._jumped(stood_still.lasted, stood_still.why, is_absorbed=True)

    async def _jumped(self, by: int, why: str, *, is_absorbed: bool = False) -> None:
        """Record a jump, send it to the loop, and publish it with the next heartbeat."""
        self.jumps.note(self._clock.now(), by, why)
        self._is_called.set()
        await self._inbox.deliver(ClockJumped(by, why, is_absorbed))

    async def _listen(self) -> None:
        """Bring the next heartbeat forward when a notification for this node arrives."""
        mine = {TIMELINE_TOPIC, f"mail/{self._node}"}
        while True:
            try:
                async for topics in self._store.watch():
                    if topics & mine:
                        self._is_called.set()
            except StoreError as error:
                self._log.warning("watch.interrupted", error=str(error), hint="heartbeats go on, and find out later")
            await asyncio.sleep(self._settings.node_heartbeat_interval / SECOND / LOOKS)

    # -- work for any node ---------------------------------------------------------------------------------------------

    async def _look_for_work(self) -> None:
        query = OpenQuery(self._node, self._settings.takeover_after, _OFFERS_MAX, self._settings.grace_period)
        while True:
            try:
                asked_at = self._clock.elapsed()
                offers = await self._store.read(query)
                await self._set_clock(offers.now, asked_at)
            except StoreError as error:
                self._unanswered()
                self._log.debug("watch.no_offers", error=str(error))
            else:
                self._calls.on_look(offers.now, offers.watermark)
                if offers.rows:
                    await self._inbox.send(WorkOffered(offers.rows))
            await asyncio.sleep(self._settings.node_heartbeat_interval / SECOND / LOOKS)
