"""Operations on a store without a node, for example from the command line.

A change is durable when the call returns. Running nodes receive it soon; if none runs, it holds when the next node
starts.
"""

from __future__ import annotations

import getpass

from itinerary.model.queries import NodesQuery
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.run_requests import Permit, RunRequests
from itinerary.ports import Store
from itinerary.read.nodes import heard_of
from itinerary.read.run_lookup import RunLookup
from itinerary.read.timeline_view import StoreView

__all__ = ["Operator", "local_user"]


class Operator:
    """Changes and requests on one store, on behalf of one caller. Make one with `Operator.at`."""

    def __init__(self, store: Store, view: StoreView, by: str, permit: Permit | None = None) -> None:
        """Create an operator. `permit` checks the values that are set on one run; None permits every value."""
        self._store, self.view, self.by = store, view, by
        self.changes = StatusChanges(store, view, by)
        self.requests = RunRequests(store, view, by, RunLookup(), permit)

    @classmethod
    async def at(cls, store: Store, by: str | None = None) -> Operator:
        """Read the timeline and return an operator; `by` defaults to the user of this process."""
        return cls(store, await StoreView.of(store), local_user() if by is None else by)

    async def has_nodes(self) -> bool:
        """True if a node seems to run on the store, by its last heartbeat."""
        nodes = await self._store.read(NodesQuery())
        return any(heard_of(node, self.view.now()) for node in nodes)


def local_user() -> str:
    """Return the name of the user who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        return "local"
