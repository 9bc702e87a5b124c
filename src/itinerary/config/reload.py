"""Settings, read again while a node runs (U13): what it goes by from now on, and what waits for a restart.

Of what governs the node, `model.settings` says which can be changed live. Everything else that can be set stands for
what the node was built on: where its store is, what it is called. The defaults of all jobs are part of the jobs: the
store has them, and `itinerary apply` or a start changes them there.
"""

from __future__ import annotations

from msgspec.structs import replace

from itinerary.config.configuration import OWN_KEYS, Configuration
from itinerary.model.settings import Reread, reread_settings

__all__ = ["reread"]


def reread(now: Configuration, wanted: Configuration) -> tuple[Configuration, Reread]:
    """What holds from now on, and what is to be said about it. Of what needs a restart only the names: a store's
    address may have a password in it."""
    found = reread_settings(now.settings, wanted.settings)
    before, after = _apart(now), _apart(wanted)
    names = [name for name in OWN_KEYS if getattr(before, name) != getattr(after, name)]
    is_default = (before.defaults, before.env) != (after.defaults, after.env)
    told = replace(
        found,
        needs_restart=(*names, *found.needs_restart),
        needs_apply=("defaults",) if is_default else (),
    )
    return replace(now, settings=found.settings), told


def _apart(configuration: Configuration) -> Configuration:
    """The time zone is among the defaults of the jobs, too: it is told of once."""
    return replace(configuration, defaults=replace(configuration.defaults, timezone=None))
