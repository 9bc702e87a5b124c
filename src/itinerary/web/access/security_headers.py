"""The headers that every response carries, whatever it is: what a browser may do with it, which is little (Q2).

A page loads its own style sheet, script and pictures, and speaks to its own server. It runs nothing that stands in the
page itself, so that text which slipped through unescaped is still only text; nobody may frame it, and no other site
hears where it was linked from. Nothing is kept by caches, since everything here is for one reader.

`Referrer-Policy` is `same-origin` and not `no-referrer`: with that, browsers write `Origin: null` with our own forms,
and over plain http elsewhere than on loopback they send nothing else by which a form of ours could be told from one of
another site.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CONTENT_SECURITY_POLICY", "security_headers"]

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_PERMISSIONS: Final = ", ".join(
    f"{feature}=()"
    for feature in ("accelerometer", "camera", "geolocation", "gyroscope", "microphone", "payment", "serial", "usb")
)
_ALWAYS: Final = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", _PERMISSIONS),
    ("Cache-Control", "no-store"),
)
_ENCRYPTED: Final = (*_ALWAYS, ("Strict-Transport-Security", "max-age=31536000"))


def security_headers(scheme: str) -> tuple[tuple[str, str], ...]:
    """The headers of every response; over https also that it stays with https."""
    return _ENCRYPTED if scheme == "https" else _ALWAYS
