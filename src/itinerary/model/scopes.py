"""Who may do what: the three scopes of a token (Q1).

    read       look at everything, change nothing
    operate    what is done to runs each day: trigger, pause, resume, skip, cancel, replay, backfill, append events;
               it lifts no policy of a job
    admin      what changes the rules: definitions, updates, removal

Each contains the one before it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["LOCAL", "LocalScope", "Scope"]

LOCAL: Final = "local"
"""The name of a local caller in the change log, where the system does not say which user it is; no token has it."""


class Scope(StrEnum):
    """What a token is good for."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """Its place in the order: the higher, the more it may."""
        return list(Scope).index(self)

    def covers(self, needed: Scope) -> bool:
        """Whether who has this scope may do what needs that one."""
        return self.rank >= needed.rank


class LocalScope(StrEnum):
    """What a caller of this machine may do without a token: the setting `web_local`."""

    ADMIN = "admin"
    OPERATE = "operate"
    READ = "read"
    NONE = "none"

    @property
    def scope(self) -> Scope | None:
        """The scope that it grants; None: none."""
        return None if self is LocalScope.NONE else Scope(self.value)
