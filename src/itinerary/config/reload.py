"""Reload settings while a node runs (U13): which take effect now, and which need a restart.

`model.settings` defines which numeric settings can change live. All other settings need a restart, for example the
store and the name. The defaults of all jobs are part of the jobs: the store has them, and `itinerary apply` or a start
changes them there.
"""

from __future__ import annotations

from msgspec.structs import replace

from itinerary.config.configuration import OWN_KEYS, Configuration
from itinerary.model.settings import ReloadResult, reread_settings

__all__ = ["reread"]


def reread(now: Configuration, wanted: Configuration) -> tuple[Configuration, ReloadResult]:
    """Return the new configuration and a report of the changes.

    The report has only the names of settings that need a restart: the URL of a store may contain a password.
    """
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
    """Return the configuration without the time zone in its job defaults, so that its change is reported only once."""
    return replace(configuration, defaults=replace(configuration.defaults, timezone=None))
