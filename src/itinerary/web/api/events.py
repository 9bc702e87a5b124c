"""The route of live changes."""

from __future__ import annotations

from typing import Annotated, Final

from litestar.params import HeaderParameter
from litestar.response import Stream

from itinerary.web.api.routing import EVENTS_TYPE, AnyRequest, streaming
from itinerary.web.api.sse import while_admitted
from itinerary.web.api.state import Api

__all__ = ["WATCHING"]


@streaming("/events", summary="Follow what changes: occurrences that begin and end, and changes of jobs", tag="live")
async def follow_changes(
    request: AnyRequest,
    api: Api,
    last: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", max_length=255, description="Where a stream broke off.")
    ] = None,
) -> Stream:
    """Server-sent events `job`, `began` and `ended`, of all nodes; `reset`, where something was left out and has to be
    read anew; `over`, when the stream ends."""
    await api.server.view()
    return Stream(await while_admitted(request, api.feed.follow(last)), media_type=EVENTS_TYPE)


WATCHING: Final = (follow_changes,)
