"""The claimer: creates rows ahead of time, and starts what is due, in bulk.

Claims and starts have lines of their own, since a start must never wait behind claims that have ten seconds left. Both
are cut into pieces, so that the first of ten thousand runs while the last is being written, and the next piece is
asked for while the answer to the one before is worked on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from itinerary.core.commands import Claim, StartRuns
from itinerary.core.messages import ClaimsAnswered, StartsAnswered, Unclaimable
from itinerary.errors import StoreError
from itinerary.model.rows import NodeNumber
from itinerary.model.writes import Refusal, Refused, Start, Wanted
from itinerary.ports import Store
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.patience import Patience

__all__ = ["Claimer"]

CLAIMS_AT_ONCE: Final = 1_000
STARTS_AT_ONCE: Final = 500
_PIECES_AT_ONCE: Final = 2


class Claimer:
    """Creates and starts occurrences."""

    def __init__(self, store: Store, node: NodeNumber, takeover_after: int, inbox: Inbox, log: Any) -> None:
        self._store, self._node, self._takeover_after, self._inbox, self._log = store, node, takeover_after, inbox, log
        self._claims: deque[tuple[int, Sequence[Wanted]]] = deque()
        self._starts: deque[tuple[int, Sequence[Start]]] = deque()
        self._has_claims, self._has_starts = asyncio.Event(), asyncio.Event()

    def claim(self, command: Claim) -> None:
        """Create these, soon."""
        for first in range(0, len(command.wanted), CLAIMS_AT_ONCE):
            self._claims.append((command.revision, command.wanted[first : first + CLAIMS_AT_ONCE]))
        self._has_claims.set()

    def start(self, command: StartRuns) -> None:
        """Start these, now."""
        for first in range(0, len(command.starts), STARTS_AT_ONCE):
            self._starts.append((command.revision, command.starts[first : first + STARTS_AT_ONCE]))
        self._has_starts.set()

    async def run(self) -> None:
        """Do so, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._run_claims(), name="claims")
            for number in range(_PIECES_AT_ONCE):
                group.create_task(self._run_starts(), name=f"starts {number}")

    async def _run_claims(self) -> None:
        patience = Patience("claimer", self._log)
        while True:
            while not self._claims:
                self._has_claims.clear()
                await self._has_claims.wait()
            revision, wanted = self._claims.popleft()
            try:
                answer = await patience.ask(lambda: self._store.claim(self._node, revision, wanted), "claim")  # noqa: B023 - awaited in this turn
            except StoreError as error:
                await self._inbox.deliver(Unclaimable(wanted, str(error)))
            else:
                await self._inbox.deliver(ClaimsAnswered(wanted, answer))

    async def _run_starts(self) -> None:
        patience = Patience("starter", self._log)
        while True:
            while not self._starts:
                self._has_starts.clear()
                await self._has_starts.wait()
            revision, starts = self._starts.popleft()
            await self._inbox.deliver(StartsAnswered(starts, await self._started(patience, revision, starts)))

    async def _started(self, patience: Patience, revision: int, starts: Sequence[Start]) -> Sequence[Any]:
        try:
            return await patience.ask(
                lambda: self._store.start(self._node, revision, starts, self._takeover_after), "start"
            )
        except StoreError as error:
            return [Refused(request.ref, Refusal.ILLEGAL, str(error)) for request in starts]
