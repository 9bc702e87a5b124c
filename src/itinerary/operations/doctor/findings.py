"""Findings of the doctor: a sentence, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["Examined", "Finding", "Level"]


class Level(StrEnum):
    """The severity of a finding."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    """Nothing is lost, but an operator should know."""
    WRONG = "wrong"
    """Something does not run, or a guarantee does not hold."""


class Finding(msgspec.Struct, frozen=True):
    """The result of one check."""

    about: str
    level: Level
    words: str
    advice: str | None = None
    """The action that corrects the fault."""


class Examined(msgspec.Struct, frozen=True):
    """The results of all checks of a store."""

    store: str
    findings: tuple[Finding, ...]
    is_well: bool
    """True if no finding is `wrong`."""
