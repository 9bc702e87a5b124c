"""The route of live changes."""

from __future__ import annotations

from typing import Final

from itinerary.web.api.parameters import LastEventId
from itinerary.web.api.routing import streaming
from itinerary.web.api.sse import while_admitted
from itinerary.web.api.state import ApiState
from itinerary.web.http_responses import Stream
from itinerary.web.requests import Request

__all__ = ["WATCHING"]


@streaming("/events", summary="Follow what changes: occurrences that begin and end, and changes of jobs", tag="live")
async def follow_changes(
    request: Request,
    api: ApiState,
    last: LastEventId = None,
) -> Stream:
    """Server-sent events `job`, `began` and `ended`, of all nodes; `reset`, where something was left out and has to be
    read anew; `over`, when the stream ends."""
    await api.server.view()
    return Stream(await while_admitted(request, api.feed.follow(last)))


WATCHING: Final = (follow_changes,)
