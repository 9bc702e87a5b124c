"""The password in the address of a store: found, masked in all outputs, and left out of shown addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from itinerary.masking import hide

__all__ = ["address_without_password", "has_password", "hide_passwords", "passwords_in"]

_IN_QUERY: Final = re.compile(r"(?i)\b(password|passfile|sslpassword)=([^&]*)")


def passwords_in(url: str) -> list[str]:
    """Return the passwords in the address of a store, both as written and decoded."""
    found = [password for password in _written(url) if password]
    return list(dict.fromkeys(form for password in found for form in (password, unquote(password))))


def has_password(url: str) -> bool:
    """True if the address of a store contains a password."""
    return bool(passwords_in(url))


def address_without_password(url: str) -> str:
    """Return the address of a store without its user, its password and the options that hold a password."""
    before, at, after = url.rpartition("@")
    scheme, slashes, _ = before.partition("//")
    without = f"{scheme}{slashes}…@{after}" if at else url
    return _IN_QUERY.sub(r"\1=…", without)


def hide_passwords(url: str) -> None:
    """Mask the password in this address in all outputs.

    A password that also occurs elsewhere in the address, such as `postgres`, stays visible: outputs need that word.
    """
    shown = address_without_password(url) + _user(url)
    for password in passwords_in(url):
        if password not in shown:
            hide(password)


def _written(url: str) -> Iterator[str]:
    if not url.startswith("postgres"):
        return
    yield _credentials(url).partition(":")[2]
    for option, value in _IN_QUERY.findall(url):
        if option.lower() != "passfile":
            yield value


def _user(url: str) -> str:
    return _credentials(url).partition(":")[0]


def _credentials(url: str) -> str:
    """Return the part between `//` and the last `@`: the user and the password."""
    before, at, _ = url.rpartition("@")
    return before.partition("//")[2] if at else ""
