"""The dashboard of `itinerary up`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from itinerary.api import Itinerary
from itinerary.cli.run_command import run_command
from itinerary.config.log_setup import engine_log

if TYPE_CHECKING:
    from itinerary.web.server import WebServer

__all__ = ["web_server"]


def web_server(app: Itinerary) -> WebServer | None:
    """Return the web server of an app, checked and with its address bound. None if the app has no web server.

    Everything that can keep the server from answering is an error here, before the node claims its first run.

    Raises:
        ConfigError: An entry of `web_names` is not a host name.
        NodeError: The address is taken, or other machines can reach it and there is no token.
        StoreError: The tokens cannot be read.
    """
    at = app.configuration.web
    if at is None:
        return None
    from itinerary.web.server import WebServer  # noqa: PLC0415 - a second's work that only this command needs

    server = WebServer(at, log=app.log or engine_log(), may_move=app.configuration.web_may_move)
    server.bind()
    try:
        run_command(server.check(app.configuration))
    except BaseException:
        server.stop()
        raise
    return server
