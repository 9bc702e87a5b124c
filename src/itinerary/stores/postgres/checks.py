"""Server settings that break a guarantee (protocol rule 27).

The settings are read on request and reported in words; nothing is changed. A server that says "committed" before the
data is written can forget a start in a crash, and then the same occurrence starts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["SETTINGS_READ", "warnings"]

SETTINGS_READ: Final = (
    "SELECT name, setting FROM pg_settings WHERE name IN"
    " ('fsync', 'full_page_writes', 'server_encoding', 'synchronous_commit')"
)


def warnings(settings: Mapping[str, str]) -> list[str]:
    """Return the problems in these settings, each with what to do about it; empty if there are none."""
    found = []
    if settings.get("synchronous_commit") == "off":
        found.append(
            "synchronous_commit is off: a crash of the server can forget the last starts, and they would start again;"
            " set it to on, for this user at least (ALTER ROLE … SET synchronous_commit = on)"
        )
    if settings.get("fsync") == "off":
        found.append("fsync is off: a crash of the server's machine can destroy the database; set it to on")
    if settings.get("full_page_writes") == "off":
        found.append("full_page_writes is off: a crash in the middle of a write can destroy a page; set it to on")
    if settings.get("server_encoding", "UTF8") != "UTF8":
        found.append(
            f"the database's encoding is {settings['server_encoding']}: texts with other characters cannot be kept;"
            " create it with the encoding UTF8"
        )
    return found
