"""Findings of the doctor: a sentence, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

__all__ = ["CheckResult", "DoctorReport", "Severity"]


class Severity(StrEnum):
    """The severity of a finding."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    """Nothing is lost, but an operator should know."""
    WRONG = "wrong"
    """Something does not run, or a guarantee does not hold."""


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    about: str
    level: Severity
    words: str
    advice: str | None = None
    """The action that corrects the fault."""


class DoctorReport(msgspec.Struct, frozen=True):
    """The results of all checks of a store."""

    store: str
    findings: tuple[CheckResult, ...]
    is_well: bool
    """True if no finding is `wrong`."""
