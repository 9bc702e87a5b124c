"""Settings, read again while a node runs (U13): what it goes by from now on, and what waits for a restart.

Of what governs the node, `model.settings` says which can be changed live. Everything else that can be set stands for
what the node was built on: where its store is, what it is called, what jobs begin with.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from itinerary.app.sources import OWN_KEYS, Configuration
from itinerary.model.settings import Reread, reread_settings

__all__ = ["reread"]

_BUILT_ON: Final = (*OWN_KEYS, "defaults")


def reread(now: Configuration, wanted: Configuration) -> tuple[Configuration, Reread]:
    """What holds from now on, and what is to be said about it. Of what needs a restart only the names: a store's
    address may have a password in it."""
    found = reread_settings(now.settings, wanted.settings)
    before, after = _apart(now), _apart(wanted)
    names = [name for name in _BUILT_ON if getattr(before, name) != getattr(after, name)]
    if before.env != after.env and "defaults" not in names:
        names.append("defaults")
    return replace(now, settings=found.settings), replace(found, needs_restart=(*names, *found.needs_restart))


def _apart(configuration: Configuration) -> Configuration:
    """The time zone is among the defaults of the jobs, too: it is told of once."""
    return replace(configuration, defaults=replace(configuration.defaults, timezone=None))
