"""Somebody who asks things of a store, without a node: a person on the command line, say.

What they ask is durable when they have their answer, and whichever nodes run hear of it soon; if none runs, it holds
when the next one comes.
"""

from __future__ import annotations

import getpass

from itinerary.model.queries import Nodes
from itinerary.operations.job_changes import Changes
from itinerary.operations.run_requests import Permit, Requests
from itinerary.ports import Store
from itinerary.read.nodes import heard_of
from itinerary.read.run_lookup import Finder
from itinerary.read.timeline_view import StoreView

__all__ = ["Operator", "local_user"]


class Operator:
    """Changes and requests, by one person, on one store. Make one with `Operator.at`."""

    def __init__(self, store: Store, view: StoreView, by: str, permit: Permit | None = None) -> None:
        """`permit` is asked about the values that are set on one run; None: every value is permitted."""
        self._store, self.view, self.by = store, view, by
        self.changes = Changes(store, view, by)
        self.requests = Requests(store, view, by, Finder(), permit)

    @classmethod
    async def at(cls, store: Store, by: str | None = None) -> Operator:
        """Somebody who has read the timeline; the user of this process, unless somebody else is named."""
        return cls(store, await StoreView.of(store), local_user() if by is None else by)

    async def has_nodes(self) -> bool:
        """Whether some node runs on the store, as far as one can see."""
        nodes = await self._store.read(Nodes())
        return any(heard_of(node, self.view.now()) for node in nodes)


def local_user() -> str:
    """Who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "local"
