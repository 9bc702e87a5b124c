"""The limit of open files of this process, and the part of it that connections may use."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Final

__all__ = ["connections_max", "raise_file_limit"]

_UNLIMITED_MEANS: Final = 65_536
"""The soft limit to request if the hard limit is infinite: some systems refuse an infinite soft limit."""
_LEAST: Final = 8
"""The fewest connections that a server allows, even if the limit of open files is very low."""


def raise_file_limit() -> int:
    """Raise the soft limit of open files of this process to its hard limit.

    Processes that are started later inherit the raised limit.

    Returns:
        The new soft limit. If the system refuses a higher limit, this is the old one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _UNLIMITED_MEANS if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # the old limit then stays, and every bound is derived from it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_max(share: int, at_most: int) -> int:
    """Return the most connections that a server may have.

    Args:
        share: A server may use one in `share` of all open files.
        at_most: The upper bound of the result.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return at_most
    return max(_LEAST, min(at_most, soft // share))
