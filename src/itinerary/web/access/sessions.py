"""Sessions of browsers: a cookie that stands for a token, so that the token itself is typed once.

    v1.<what it says>.<signature>

It says the token's name, the beginning of its hash, when it ends, and a random id. Nothing is stored of it while it
lasts: what is signed is believed, and what it says is held against the token as that is now. So a session ends after 12
hours, and with its token: revoked, expired, or of the same name but another one.

A user who signs out ends the session at this server, so that a copy of the cookie is worth nothing. The ids of such
sessions are kept until the sessions would have ended, at most 10,000. If there are more, the sessions that began first
are ended for good: a signed-out session never comes back.

The key is made when the server starts and never leaves the process, so that a copy of the store is not enough to forge
a session. After a restart people sign in again; servers that shall honour each other's sessions are given a key.

The cookie is for our pages only: no script can read it (HttpOnly), no other site's request carries it
(SameSite=Strict), and over https it is bound to this host (`__Host-`, Secure). Cookies are shared between the ports of
a host, so its name has the port in it, where there is no https.

A form or a script proves that it is of our page by a *form token*, which only the page has: the signature of the
session's id (Q2). On loopback, where there are no sessions, it is that of a word: all who can read our pages there are
the same person.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.operations.tokens import Found
from itinerary.schedules.durations import SECOND

__all__ = ["ENDED_MAX", "KEY_MIN", "SESSION_FOR", "Session", "Sessions"]

SESSION_FOR: Final = 12 * 3_600 * SECOND
"""How long a session lasts, in microseconds."""
KEY_MIN: Final = 32
"""Bytes that a given key has at least."""
ENDED_MAX: Final = 10_000
"""How many signed-out sessions are kept by their ids."""
_VALUE_MAX: Final = 2_048
_VERSION: Final = "v1"
_HASH_PART: Final = 16


class Session(msgspec.Struct, frozen=True):
    """What a cookie says."""

    name: str
    hash_part: str
    until: int
    """The store's time, in microseconds."""
    id: str

    def is_of(self, found: Found) -> bool:
        """Whether it is a session of this token, and not over."""
        same = hmac.compare_digest(self.hash_part.encode(), found.row.hash[:_HASH_PART].encode())
        return same and found.now < self.until


class Sessions:
    """Makes and reads the cookies of one server."""

    def __init__(self, port: int, key: bytes | None = None) -> None:
        if key is not None and len(key) < KEY_MIN:
            raise ConfigError(f"web: the key of sessions has {len(key)} bytes; give at least {KEY_MIN} random ones")
        self._key = secrets.token_bytes(KEY_MIN) if key is None else key
        self._port = port
        self._decoder = msgspec.json.Decoder(Session)
        self._ended: dict[str, int] = {}
        """The ids of sessions that were signed out, and when they would have ended."""
        self._ended_until = 0
        """Sessions that would end up to this time are over."""

    def begin(self, found: Found) -> tuple[Session, str]:
        """A session for a token, and its cookie's value."""
        session = Session(found.row.name, found.row.hash[:_HASH_PART], found.now + SESSION_FOR, secrets.token_hex(16))
        said = _text(msgspec.json.encode(session))
        return session, f"{_VERSION}.{said}.{self._signed('session', said)}"

    def read(self, value: str) -> Session | None:
        """Return the session of a cookie; None if it is not ours, was changed, or its session was signed out."""
        session = self._read(value)
        is_over = session is None or session.id in self._ended or session.until <= self._ended_until
        return None if is_over else session

    def end(self, value: str) -> None:
        """End the session of a cookie, and so of every copy of the cookie. No effect if it is none of ours."""
        session = self.read(value)
        if session is None:
            return
        self._ended[session.id] = session.until
        if len(self._ended) > ENDED_MAX:
            first = min(self._ended, key=self._ended.__getitem__)
            self._ended_until = self._ended.pop(first)

    def _read(self, value: str) -> Session | None:
        version, _, rest = value.partition(".")
        said, _, signature = rest.partition(".")
        if len(value) > _VALUE_MAX or version != _VERSION or not value.isascii():
            return None
        if not hmac.compare_digest(self._signed("session", said), signature):
            return None
        return self._decoder.decode(base64.urlsafe_b64decode(said + "=" * (-len(said) % 4)))

    def form_token(self, of: str) -> str:
        """What the forms of a page carry: `of` is a session's id, or a word that no id is."""
        return self._signed("form", of)

    @staticmethod
    def is_same(given: str, expected: str) -> bool:
        """Whether two form tokens are one, compared in constant time."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())

    def cookie_name(self, scheme: str) -> str:
        return "__Host-itinerary_session" if scheme == "https" else f"itinerary_session_{self._port}"

    def cookie(self, scheme: str, value: str) -> tuple[str, str]:
        """The header that gives a browser a cookie; an empty value takes it away."""
        lives_for = SESSION_FOR // SECOND if value else 0
        rules = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={lives_for}{'; Secure' if scheme == 'https' else ''}"
        return "Set-Cookie", f"{self.cookie_name(scheme)}={value}; {rules}"

    def _signed(self, use: str, said: str) -> str:
        return _text(hmac.digest(self._key, f"{use} {said}".encode(), hashlib.sha256))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
