"""The option `--store`: a password in it causes a warning, and is removed from the list of processes.

Every user of a machine can read the arguments of every process. So a password belongs in the environment or in a file
that only its owner can read. If a caller gives one anyway, the command prints advice and overwrites the password in its
own arguments. Until then the password is readable, and it remains in the shell's history.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Annotated, Final

import click

from itinerary.cli.commands import Option
from itinerary.stores.passwords import has_password, hide_passwords, passwords_in

__all__ = ["Store", "checked_store"]

_WARNING: Final = (
    "itinerary: warning: --store has a password in it, which other users of this machine can read in the list of "
    "processes; set ITINERARY_STORE instead, or `store` in itinerary.toml, or leave the password to PGPASSFILE"
)
_ARGUMENTS_START, _ARGUMENTS_END = 45, 46
"""The positions of the argument addresses in /proc/self/stat, counted from the state of the process."""


def checked_store(context: click.Context, url: str | None) -> str | None:
    """Warn if the address of a store has a password in it. Return the address unchanged."""
    if url is not None and not context.resilient_parsing and has_password(url):
        click.echo(_WARNING, err=True)
        hide_passwords(url)
        _overwrite_arguments(passwords_in(url))
    return url


Store = Annotated[
    str | None,
    Option(
        "--store",
        metavar="URL",
        help="Where everything is kept: sqlite:///file.db, postgresql://…",
        check=checked_store,
    ),
]


def _overwrite_arguments(passwords: list[str]) -> None:
    """Overwrite passwords in the arguments of this process, if the system reports their place: on Linux."""
    try:
        with open("/proc/self/stat", "rb") as stat:  # noqa: PTH123 - a file of the kernel
            fields = stat.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
    except (OSError, ValueError, IndexError):
        return
    if not sys.platform.startswith("linux") or not 0 < start < end:
        return
    arguments = ctypes.string_at(start, end - start)
    for password in passwords:
        encoded = password.encode("utf-8", "surrogateescape")
        arguments = arguments.replace(encoded, b"*" * len(encoded))
    ctypes.memmove(start, arguments, end - start)
