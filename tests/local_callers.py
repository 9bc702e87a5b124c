"""Callers of this machine, for tests that hand requests to the application without a socket."""

from __future__ import annotations

import os
from typing import Final

from msgspec.structs import replace

from itinerary.config.configuration import Configuration
from itinerary.model.scopes import LocalScope
from itinerary.web.access.peers import Connection, user_name

__all__ = ["ME", "all_allowed", "own_user"]

ME: Final = user_name(os.geteuid())
"""The name of the user who runs the tests, as the change log has it."""


def own_user(_connection: Connection) -> int:
    """Say that the node's own user opened each connection."""
    return os.geteuid()


def all_allowed(configuration: Configuration) -> Configuration:
    """Allow local callers everything, with tokens in the store or without."""
    return replace(configuration, web_local=LocalScope.ADMIN)
