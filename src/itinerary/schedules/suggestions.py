"""Suggestions for mistyped names.

An error about an unknown name suggests the closest known name, with the same wording everywhere. The module is in this
low layer because schedules need it as well as jobs, settings and commands.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

__all__ = ["did_you_mean", "nearest"]

_COMPARED_MAX: Final = 255
"""The number of characters that are compared. A text sent by mistake may be a megabyte long."""

_NAMES_MAX: Final = 5_000


def nearest(given: object, known: Iterable[str], *, alike: float = 0.6) -> str | None:
    """Return the known name that is most similar to the given one.

    Args:
        given: The mistyped name.
        known: The known names.
        alike: The least similarity, from 0 to 1.

    Returns:
        The name, or None if no name is similar enough.
    """
    if not isinstance(given, str):
        return None
    wanted, names = given[:_COMPARED_MAX], list(known)
    if len(names) > _NAMES_MAX:  # those that begin alike are the likely ones, and to compare all would take seconds
        names = [name for name in names if name[:2].casefold() == wanted[:2].casefold()][:_NAMES_MAX]
    close = get_close_matches(wanted, names, n=1, cutoff=alike)
    return close[0] if close else None


def did_you_mean(given: object, known: Iterable[str], *, otherwise: str) -> str:
    """The hint of an error: the nearest name as a question, or, if none is near, something else that helps."""
    close = nearest(given, known)
    return otherwise if close is None else f"did you mean {close!r}?"
