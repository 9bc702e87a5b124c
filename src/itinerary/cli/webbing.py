"""The dashboard of `itinerary up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from itinerary.app import Itinerary
from itinerary.app.logs import engine_log

if TYPE_CHECKING:
    from itinerary.web.server import WebServer

__all__ = ["web_server"]


def web_server(app: Itinerary) -> WebServer | None:
    """The web server of an app, with its address taken; None if there is to be none. Raises NodeError."""
    at = app.configuration.web
    if at is None:
        return None
    from itinerary.web.server import WebServer  # noqa: PLC0415 - a second's work that only this command needs

    server = WebServer(at, log=app.log or engine_log(), may_move=app.configuration.web_may_move)
    server.bind()
    return server
