"""The parts of the application that every request can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from itinerary.connections.refusals import Refusals
from itinerary.web.access import Admission, Slowdown
from itinerary.web.daily_counts import DailyCounts
from itinerary.web.live import LivePages
from itinerary.web.pages.versions import VersionChanges
from itinerary.web.server_state import ServerState
from itinerary.web.stream_limits import OpenStreams

if TYPE_CHECKING:
    from itinerary.web.api.state import ApiState

__all__ = ["AppState"]


class AppState:
    """The state that all requests share."""

    def __init__(
        self,
        hub: LivePages,
        admission: Admission,
        log: Any,
        *,
        refusals: Refusals,
        streams: OpenStreams,
        api: ApiState | None,
    ) -> None:
        self.hub, self.admission, self.log = hub, admission, log
        self.refusals, self.streams = refusals, streams
        self.slowdown = Slowdown()
        self.daily_counts, self.version_changes = DailyCounts(), VersionChanges()
        self._api = api

    @property
    def server(self) -> ServerState:
        """The state of the web server."""
        return self.hub.server

    @property
    def api(self) -> ApiState:
        """The state of the API. Only for applications that serve the API."""
        assert self._api is not None, "the routes of the API are served with its state"
        return self._api
