"""The claimer: creates rows ahead of time, and starts due occurrences, in bulk.

Claims and starts have separate queues, because a start must never wait behind claims that have ten seconds left. The
claimer cuts both into pieces. The first of ten thousand occurrences then runs while the last one is still being
written. The claimer sends the next piece while the core handles the answer to the previous one.

During a long store outage, a claim can wait until its instant is older than the grace period. The claimer drops such a
claim. No row then exists, the sweep finds the instant, and the recovery strategy of the job decides (R1).

At shutdown, the claimer releases the unstarted occurrences of the node at once. Other nodes can start them while this
node still waits for its running attempts. The claimer also takes over started occurrences of dead nodes, and reads them
once this node owns them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from itinerary.core.loop.commands import Claim, Release, StartRuns, TakeUp
from itinerary.core.loop.messages import ClaimsAnswered, StartsAnswered, TakenUp, Unclaimable
from itinerary.errors import SchemaError, StoreError
from itinerary.model.queries import Detail, DetailsQuery, LastRunsQuery
from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Settings
from itinerary.model.states import FINAL
from itinerary.model.writes import (
    Claimed,
    ClaimRequest,
    Refusal,
    Refused,
    Started,
    StartRequest,
    TakeoverWrite,
    Written,
)
from itinerary.ports import Clock, Store
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.store_retry import StoreRetry
from itinerary.runtime.store_use import StoreUse

__all__ = ["Claimer"]

CLAIMS_AT_ONCE: Final = 1_024
STARTS_AT_ONCE: Final = 1_024
FIRST_STARTS: Final = 512
"""The size of a piece of starts while fewer than `_FIRST_PIECES` are unanswered. Nothing runs before the first piece
is written, and a node that waits for that piece is idle."""
_FIRST_PIECES: Final = 2
_PIECES_AT_ONCE: Final = 3
"""Pieces of starts that are sent at the same time: while a store commits one, the next ones already wait there."""


class Claimer:
    """The component that creates and starts occurrences."""

    def __init__(
        self,
        store: Store,
        node: NodeNumber,
        settings: Settings,
        clock: Clock,
        inbox: Inbox,
        log: Any,
        use: StoreUse | None = None,
    ) -> None:
        self._store, self._node, self._settings, self._inbox, self._log = store, node, settings, inbox, log
        self._clock, self._use = clock, use
        self._claims: deque[tuple[int, Sequence[ClaimRequest]]] = deque()
        self._starts: deque[tuple[int, Sequence[StartRequest]]] = deque()
        self._unanswered = 0
        """Pieces of starts that are queued or sent, and have no answer yet."""
        self._releases: deque[Sequence[TakeoverWrite]] = deque()
        self._takings: deque[Sequence[TakeoverWrite]] = deque()
        self._has_claims, self._has_starts, self._has_releases = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._has_takings = asyncio.Event()

    def claim(self, command: Claim) -> None:
        """Queue rows to create."""
        for first in range(0, len(command.wanted), CLAIMS_AT_ONCE):
            self._claims.append((command.revision, command.wanted[first : first + CLAIMS_AT_ONCE]))
        self._has_claims.set()

    def start(self, command: StartRuns) -> None:
        """Queue occurrences to start."""
        first, starts = 0, command.starts
        while first < len(starts):
            size = FIRST_STARTS if self._unanswered < _FIRST_PIECES else STARTS_AT_ONCE
            self._starts.append((command.revision, starts[first : first + size]))
            self._unanswered += 1
            first += size
        self._has_starts.set()

    def release(self, command: Release) -> None:
        """Queue occurrences to release."""
        for first in range(0, len(command.interventions), CLAIMS_AT_ONCE):
            self._releases.append(command.interventions[first : first + CLAIMS_AT_ONCE])
        self._has_releases.set()

    def take_up(self, command: TakeUp) -> None:
        """Queue occurrences to take over and then read."""
        for first in range(0, len(command.interventions), STARTS_AT_ONCE):
            self._takings.append(command.interventions[first : first + STARTS_AT_ONCE])
        self._has_takings.set()

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_claims(), name="claims")
            for number in range(_PIECES_AT_ONCE):
                group.create_task(self._run_starts(), name=f"starts {number}")
            group.create_task(self._run_releases(), name="releases")
            group.create_task(self._run_takings(), name="takings")

    async def _run_claims(self) -> None:
        patience = self._patience("claimer")
        while True:
            while not self._claims:
                self._has_claims.clear()
                await self._has_claims.wait()
            revision, wanted = self._claims.popleft()
            try:
                answer = await patience.ask(lambda: self._claimed(revision, wanted), "claim")  # noqa: B023 - awaited in this turn
            except StoreError as error:
                await self._inbox.deliver(Unclaimable(wanted, str(error)))
            else:
                await self._inbox.deliver(ClaimsAnswered(wanted, answer))

    async def _claimed(self, revision: int, wanted: Sequence[ClaimRequest]) -> Sequence[Claimed] | Refusal:
        oldest = self._clock.now() - self._settings.grace_period
        fresh = [item for item in wanted if item.key.instant >= oldest]
        if len(fresh) < len(wanted):
            self._log.info("occurrences.left_to_the_sweep", count=len(wanted) - len(fresh), why="older than the grace")
        return await self._store.claim(self._node, revision, fresh) if fresh else ()

    async def _run_starts(self) -> None:
        patience = self._patience("starter")
        while True:
            while not self._starts:
                self._has_starts.clear()
                await self._has_starts.wait()
            revision, starts = self._starts.popleft()
            begun = await self._begun(patience, revision, starts)
            if begun:  # these run while the others are checked, which may have to wait for a lock of another node
                refs = {answer.ref for answer in begun}
                await self._inbox.deliver(StartsAnswered([one for one in starts if one.ref in refs], begun))
                starts = [one for one in starts if one.ref not in refs]
            if starts:
                answers = await self._started(patience, revision, [_to_be_looked_at(one) for one in starts])
                await self._inbox.deliver(StartsAnswered(starts, answers))
            self._unanswered -= 1

    async def _begun(self, patience: StoreRetry, revision: int, starts: Sequence[StartRequest]) -> Sequence[Started]:
        try:
            return await patience.ask(lambda: self._store.begin(self._node, revision, starts), "start")
        except SchemaError:
            raise
        except StoreError:
            return ()  # the one-by-one check below finds the faulty start

    async def _started(
        self, patience: StoreRetry, revision: int, starts: Sequence[StartRequest]
    ) -> Sequence[Started | Refused]:
        async def start(some: Sequence[StartRequest]) -> Sequence[Started | Refused]:
            return await self._store.start(self._node, revision, some, self._settings.takeover_after)

        return await patience.ask_each(start, starts, "start", _refused)

    async def _run_takings(self) -> None:
        patience = self._patience("claimer")
        while True:
            while not self._takings:
                self._has_takings.clear()
                await self._has_takings.wait()
            await self._inbox.deliver(TakenUp(await self._taken(patience, self._takings.popleft())))

    async def _taken(self, patience: StoreRetry, asked: Sequence[TakeoverWrite]) -> list[Detail | Refused]:
        """Take over occurrences, and return the details of those that this node owns now.

        Another node can take an occurrence away between the two calls.
        """

        async def take(some: Sequence[TakeoverWrite]) -> Sequence[Written | Refused]:
            return await self._store.intervene(self._node, some)

        answers = await patience.ask_each(take, asked, "take up", _untaken)
        refs = tuple(answer.ref for answer in answers if isinstance(answer, Written))
        details = await patience.ask(lambda: self._store.read(DetailsQuery(refs)), "take up") if refs else ()
        last_runs = await patience.ask(lambda: self._store.read(LastRunsQuery(refs)), "take up") if refs else {}
        mine = {
            detail.row.ref: replace(detail, last_run_at=last_runs.get(detail.row.ref))
            for detail in details
            if detail.row.owner == self._node and detail.row.status not in FINAL
        }
        return [
            answer
            if isinstance(answer, Refused)
            else mine.get(answer.ref, Refused(answer.ref, Refusal.LOST, "it was taken away again"))
            for answer in answers
        ]

    async def _run_releases(self) -> None:
        patience = self._patience("claimer")
        while True:
            await self._has_releases.wait()
            self._has_releases.clear()
            await self.release_all(patience)

    def _patience(self, component: str) -> StoreRetry:
        return StoreRetry(component, self._log, self._settings.node_heartbeat_interval, self._use)

    async def release_all(self, patience: StoreRetry) -> None:
        """Write all queued releases. A piece stays in the queue until it is written: a repeated write does no harm."""
        while self._releases:
            piece = self._releases[0]
            try:
                await patience.ask(lambda: self._store.intervene(self._node, piece), "release")  # noqa: B023 - awaited in this turn
            except StoreError as error:
                self._log.error(
                    "releases.failed",
                    count=len(piece),
                    error=str(error),
                    hint="others take them over when they are due",
                )
            if self._releases and self._releases[0] is piece:
                self._releases.popleft()


def _to_be_looked_at(request: StartRequest) -> StartRequest:
    """Return the start without `is_plain`: the bulk start did not start it."""
    return replace(request, is_plain=False) if request.is_plain else request


def _untaken(item: TakeoverWrite, error: StoreError) -> Written | Refused:
    return Refused(item.ref, Refusal.ILLEGAL, str(error))


def _refused(request: StartRequest, error: StoreError) -> Started | Refused:
    return Refused(request.ref, Refusal.ILLEGAL, str(error))
