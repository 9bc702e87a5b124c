"""The subject of a version entry: the source that declares the job, and the start of the version's instants."""

from __future__ import annotations

from typing import NamedTuple

from itinerary.errors import RecordError
from itinerary.model.text import shown

__all__ = ["VersionSubject", "read_version_subject"]

_BETWEEN = "\n"


class VersionSubject(NamedTuple):
    """The facts of a `version` entry besides the definition."""

    source: str = ""
    """The file that declares the job. Empty if a person made the version."""
    first_at: int = 0
    """The start of its instants if that is later than its effective time (R7). Otherwise 0."""

    @property
    def text(self) -> str:
        """The subject as it is stored."""
        source = self.source.replace(_BETWEEN, " ")
        return f"{source}{_BETWEEN}{self.first_at}" if self.first_at else source


def read_version_subject(text: str) -> VersionSubject:
    """Read a stored subject.

    Raises:
        RecordError: The text after the source is not an instant in microseconds.
    """
    source, _, first_at = text.partition(_BETWEEN)
    try:
        return VersionSubject(source, int(first_at) if first_at else 0)
    except ValueError:
        raise RecordError(f"{shown(first_at)} is no instant in microseconds") from None
