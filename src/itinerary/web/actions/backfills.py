"""Backfills that run in the background, and their progress.

The web server that received the request runs the backfill under the key of its form. After a store outage the backfill
resumes. If the node stops, the runs that were created remain, and the same form, sent again, resumes the backfill.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec.structs import replace

from itinerary.errors import ItineraryError, NodeError, StoreError
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.operations.operator import Operator
from itinerary.web.background import Background

__all__ = ["BackfillSeen", "ReceivedBackfills"]

_KEPT_MAX: Final = 50
_TRY_AGAIN_AFTER: Final = 1.0


class BackfillSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill and its progress."""

    key: str
    by: str
    wish: BackfillWish
    far: Backfill
    is_over: bool = False
    trouble: str | None = None
    """Why the backfill is interrupted, or why it failed."""

    @property
    def ended(self) -> int:
        """The number of runs that have ended."""
        return len(self.far.instants) - self.far.left


class ReceivedBackfills:
    """The latest backfills that this web server received."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._seen: dict[str, BackfillSeen] = {}

    def seen(self, key: str) -> BackfillSeen | None:
        """Return the progress of a backfill; None if it is unknown here."""
        return self._seen.get(key)

    def start(self, operator: Operator, wish: BackfillWish, planned: Backfill) -> None:
        """Start a backfill. No effect if a backfill with its key runs. Raises NodeError if too many are running."""
        assert wish.key is not None, "it has that of its form"
        name = _name(wish.key)
        if self._background.runs(name):
            return
        if self._background.is_full:
            raise NodeError("too much is under way on this node already; wait until a backfill has ended")
        self._keep(BackfillSeen(key=wish.key, by=operator.by, wish=wish, far=replace(planned, is_dry=False)))
        self._background.start(name, self._work(operator, wish.key))

    def stop(self, key: str) -> bool:
        """Stop creating runs; existing runs continue. Returns False if the backfill has ended already."""
        found = self._seen.get(key)
        if found is None or found.is_over:
            return False
        self._background.stop(_name(key))
        self._keep(replace(found, is_over=True, trouble="somebody stopped it; what had begun goes on"))
        return True

    async def _work(self, operator: Operator, key: str) -> None:
        while True:
            seen = self._seen[key]
            try:
                far = await operator.requests.backfill(seen.far.job, seen.wish, lambda far: self._note(key, far))
            except StoreError as error:
                self._keep(replace(self._seen[key], trouble=str(error)))
                await asyncio.sleep(_TRY_AGAIN_AFTER)
            except ItineraryError as error:
                self._keep(replace(self._seen[key], is_over=True, trouble=str(error)))
                return
            else:
                self._keep(replace(self._seen[key], far=far, is_over=True, trouble=None))
                return

    def _note(self, key: str, far: Backfill) -> None:
        self._keep(replace(self._seen[key], far=far, trouble=None))

    def _keep(self, seen: BackfillSeen) -> None:
        self._seen[seen.key] = seen
        over = [key for key, known in self._seen.items() if known.is_over]
        for key in over[: max(len(self._seen) - _KEPT_MAX, 0)]:
            del self._seen[key]


def _name(key: str) -> str:
    return f"backfill {key}"
