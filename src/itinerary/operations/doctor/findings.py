"""What a doctor says: each finding is a sentence, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Examined", "Finding", "Level"]


class Level(StrEnum):
    """How bad it is."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    """Nothing is lost, and somebody should know."""
    WRONG = "wrong"
    """Something does not run, or a promise does not hold."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    about: str
    level: Level
    words: str
    advice: str | None = None
    """What to do about it."""


class Examined(msgspec.Struct, frozen=True):
    """A store that was looked at."""

    store: str
    findings: tuple[Finding, ...]
    is_well: bool
    """Whether nothing is wrong."""
