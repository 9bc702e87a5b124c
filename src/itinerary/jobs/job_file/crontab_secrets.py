"""Secrets in a crontab: variables that look like one become references in the job file.

    PGPASSWORD=hunter2          env = { PGPASSWORD = { secret = "PGPASSWORD" } }

A job file is kept in version control, and its tasks are kept in the store and shown on pages. So a value that looks
like a secret stays out of it. The operator sets it for the node instead. A variable looks like a secret by its name
(`…PASSWORD`, `…_TOKEN`, `API_KEY`), or if its value is a URL with a password in it. The path of a file is no secret.
"""

from __future__ import annotations

import re
from typing import Final

from itinerary.executors.secrets import FILE_SUFFIX, SECRET_PREFIX

__all__ = ["SecretNames", "looks_secret", "note_on_secret", "secrets_in_command"]

_SECRET: Final = re.compile(
    r"(?:^|_)(?:\w*passw(?:or)?d|passphrase|pass|\w+_pwd|mysql_pwd|secrets?|tokens?|credentials?"
    r"|(?:api|access|secret|private|auth|encryption|signing|account)_?key)(?:$|_)",
    re.IGNORECASE | re.ASCII,
)
_NO_SECRET: Final = re.compile(r"_(?:file|path|dir|name|user|id|ttl|timeout|length|type|host|port)$", re.IGNORECASE)
_URL_WITH_PASSWORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s:/@]*:[^\s/@]+@")
_ASSIGNMENT: Final = re.compile(r"(?:^|[\s;&|(])([A-Za-z_][A-Za-z0-9_]*)=([^\s;&|)$]+)", re.ASCII)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def looks_secret(name: str, value: str) -> bool:
    """True if a variable looks like a secret, by its name or by its value."""
    if not value:
        return False
    named = _SECRET.search(name) is not None and _NO_SECRET.search(name) is None
    return named or _URL_WITH_PASSWORD.search(value) is not None


def secrets_in_command(command: str) -> list[str]:
    """Describe the likely secrets in a command, without their values: `PGPASSWORD=…`, `a URL with a password`."""
    found = [f"{name}=…" for name, value in _ASSIGNMENT.findall(command) if looks_secret(name, value)]
    if not found and _URL_WITH_PASSWORD.search(command) is not None:
        found.append("a URL with a password")
    return list(dict.fromkeys(found))


def note_on_secret(variable: str, name: str) -> str:
    """Return the note about a variable that became a reference. The value is not quoted."""
    return (
        f"{variable} looks like a secret, and the job file refers to it: set {SECRET_PREFIX}{name} in the environment "
        f"of the node, or {SECRET_PREFIX}{name}{FILE_SUFFIX} to a file that holds the value"
    )


class SecretNames:
    """Names for the secrets of one crontab. A variable with two values at two places needs two names."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def name_of(self, variable: str, value: str) -> str:
        """Return the name of the secret for a variable with this value."""
        wanted = _NOT_IN_NAMES.sub("_", variable)[:100]
        wanted = wanted if wanted[:1].isalpha() or wanted[:1] == "_" else f"_{wanted}"
        name, number = wanted, 1
        while self._values.setdefault(name, value) != value:
            number += 1
            name = f"{wanted}_{number}"
        return name
