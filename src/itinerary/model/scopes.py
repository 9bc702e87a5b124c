"""The three scopes of a token (Q1).

    read       look at everything, change nothing
    operate    daily operations on runs: trigger, pause, resume, skip, cancel, replay, backfill, append events;
               without lifting any policy of a job
    admin      changes of the rules: definitions, updates, removal

Each scope includes the one before it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["LOCAL", "LocalScope", "Scope"]

LOCAL: Final = "local"
"""The name of a local caller in the change log if the system does not report the user. No token has this name."""


class Scope(StrEnum):
    """The permissions of a token."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """The position in the order of scopes: a higher rank permits more."""
        return list(Scope).index(self)

    def covers(self, needed: Scope) -> bool:
        """True if this scope permits operations that need the other one."""
        return self.rank >= needed.rank


class LocalScope(StrEnum):
    """The scope of a caller on this machine without a token: the setting `web_local`."""

    ADMIN = "admin"
    OPERATE = "operate"
    READ = "read"
    NONE = "none"

    @property
    def scope(self) -> Scope | None:
        """The scope that it grants, or None."""
        return None if self is LocalScope.NONE else Scope(self.value)
