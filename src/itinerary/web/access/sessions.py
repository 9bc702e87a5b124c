"""Browser sessions: a cookie that stands for a token, so that a user enters the token once.

    v1.<content>.<signature>

The content is the token's name, the beginning of its hash, the end of the session, and a random id. An active session
is not stored: the signature proves the content, and the content is compared with the token's current row. So a session
ends after 12 hours, or when its token is revoked, expires, or is replaced by another one of the same name.

A user who signs out ends the session at this server, so a copy of the cookie is useless. The ids of such sessions are
kept until the sessions would have ended, at most 10,000. Beyond that limit the oldest id is dropped, and all sessions
that are as old or older are ended for good: a signed-out session never becomes valid again.

The key is created when the server starts and never leaves the process. So a copy of the store is not enough to forge a
session. After a restart users sign in again. Servers that accept each other's sessions need a common key.

The cookie is for our pages only: no script can read it (HttpOnly), no request of another site carries it
(SameSite=Strict), and over https it is bound to this host (`__Host-`, Secure). Without https, its name contains the
port, because browsers share cookies between the ports of a host.

A form or a script proves that it belongs to our page by a *form token*, which only the page has: the signature of the
session's id (Q2). On loopback there are no sessions, so the token is the signature of a fixed word: all callers who can
read our pages there are the same user.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.operations.tokens import ValidToken
from itinerary.schedules.durations import SECOND

__all__ = ["ENDED_MAX", "KEY_MIN", "SESSION_FOR", "LoginSession", "Sessions"]

SESSION_FOR: Final = 12 * 3_600 * SECOND
"""The lifetime of a session, in microseconds."""
KEY_MIN: Final = 32
"""The minimum length of a configured key, in bytes."""
ENDED_MAX: Final = 10_000
"""The maximum number of signed-out sessions whose ids are kept."""
_VALUE_MAX: Final = 2_048
_VERSION: Final = "v1"
_HASH_PART: Final = 16


class LoginSession(msgspec.Struct, frozen=True):
    """The content of a session cookie."""

    name: str
    hash_part: str
    until: int
    """The end of the session in store time, in microseconds."""
    id: str

    def is_of(self, found: ValidToken) -> bool:
        """True if this session belongs to the token and has not ended."""
        same = hmac.compare_digest(self.hash_part.encode(), found.row.hash[:_HASH_PART].encode())
        return same and found.now < self.until


class Sessions:
    """The session cookies of one server."""

    def __init__(self, port: int, key: bytes | None = None) -> None:
        if key is not None and len(key) < KEY_MIN:
            raise ConfigError(f"web: the key of sessions has {len(key)} bytes; give at least {KEY_MIN} random ones")
        self._key = secrets.token_bytes(KEY_MIN) if key is None else key
        self._port = port
        self._decoder = msgspec.json.Decoder(LoginSession)
        self._ended: dict[str, int] = {}
        """The ids of signed-out sessions, and when they would have ended."""
        self._ended_until = 0
        """Sessions that would end up to this time are ended."""

    def begin(self, found: ValidToken) -> tuple[LoginSession, str]:
        """Start a session for a token. Returns the session and the value of its cookie."""
        session = LoginSession(
            found.row.name, found.row.hash[:_HASH_PART], found.now + SESSION_FOR, secrets.token_hex(16)
        )
        said = _text(msgspec.json.encode(session))
        return session, f"{_VERSION}.{said}.{self._signed('session', said)}"

    def read(self, value: str) -> LoginSession | None:
        """Return the session of a cookie; None if it is not ours, was changed, or its session was signed out."""
        session = self._read(value)
        is_over = session is None or session.id in self._ended or session.until <= self._ended_until
        return None if is_over else session

    def end(self, value: str) -> None:
        """End the session of a cookie, and so of every copy of the cookie. No effect if the cookie is not ours."""
        session = self.read(value)
        if session is None:
            return
        self._ended[session.id] = session.until
        if len(self._ended) > ENDED_MAX:
            first = min(self._ended, key=self._ended.__getitem__)
            self._ended_until = self._ended.pop(first)

    def _read(self, value: str) -> LoginSession | None:
        version, _, rest = value.partition(".")
        said, _, signature = rest.partition(".")
        if len(value) > _VALUE_MAX or version != _VERSION or not value.isascii():
            return None
        if not hmac.compare_digest(self._signed("session", said), signature):
            return None
        return self._decoder.decode(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))

    def form_token(self, of: str) -> str:
        """Return the form token of a page. `of` is a session's id, or a word that is never an id."""
        return self._signed("form", of)

    @staticmethod
    def is_same(given: str, expected: str) -> bool:
        """True if two form tokens are equal. Compares in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())

    def cookie_name(self, scheme: str) -> str:
        return "__Host-itinerary_session" if scheme == "https" else f"itinerary_session_{self._port}"

    def cookie(self, scheme: str, value: str) -> tuple[str, str]:
        """Return the header that sets the cookie; an empty value removes it."""
        lives_for = SESSION_FOR // SECOND if value else 0
        rules = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={lives_for}{'; Secure' if scheme == 'https' else ''}"
        return "Set-Cookie", f"{self.cookie_name(scheme)}={value}; {rules}"

    def _signed(self, use: str, said: str) -> str:
        return _text(hmac.digest(self._key, f"{use} {said}".encode(), hashlib.sha256))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
