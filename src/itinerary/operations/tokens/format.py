"""The text of a token: `itn_`, 48 random hexadecimal digits, and 8 check digits.

People and secret scanners recognise a token anywhere: `itn_[0-9a-f]{56}`. A mistyped, truncated or made-up token fails
the check, and no store is queried. The check is no protection; the 192 random bits are.
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
    """Return the text of a new random token."""
    random = secrets.token_hex(_RANDOM_BYTES)
    return f"{PREFIX}{random}{_check(random)}"


def digest_of(text: str) -> str | None:
    """Return the stored SHA-256 of a token, in hexadecimal digits; None if the text cannot be a token."""
    found = _TEXT.fullmatch(text)
    if found is None or found[2] != _check(found[1]):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _check(random: str) -> str:
    return f"{zlib.crc32(random.encode()):08x}"
