"""How a token reads: `itn_`, 48 random hexadecimal digits, and 8 that check them.

It is recognised wherever it turns up, by people and by programs that look for secrets in code: `itn_[0-9a-f]{56}`. What
is mistyped, cut off or made up fails the check, and no store is asked about it. The check keeps nobody out; the 192
random bits do.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import zlib
from typing import Final

__all__ = ["PREFIX", "digest_of", "new_text"]

PREFIX: Final = "itn_"
_RANDOM_BYTES: Final = 24
_TEXT: Final = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * _RANDOM_BYTES}}})([0-9a-f]{{8}})", re.ASCII)


def new_text() -> str:
    """A token that nobody has."""
    random = secrets.token_hex(_RANDOM_BYTES)
    return f"{PREFIX}{random}{_check(random)}"


def digest_of(text: str) -> str | None:
    """What is kept of a token, SHA-256 in hexadecimal digits; None if this can be none."""
    found = _TEXT.fullmatch(text)
    if found is None or found[2] != _check(found[1]):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _check(random: str) -> str:
    return f"{zlib.crc32(random.encode()):08x}"
