"""Security headers of every response: they restrict what a browser may do with it (Q2).

A page loads only its own style sheet, script and pictures, and connects only to its own server. Inline scripts do not
run, so text that was not escaped by mistake remains text. No site may frame the page, and no other site receives a
referrer. Caches keep nothing, since every response is for one user.

`Referrer-Policy` is `same-origin` and not `no-referrer`. With `no-referrer`, browsers write `Origin: null` with our own
forms. Over plain http, other than on loopback, they then send nothing else that distinguishes our forms from those of
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
    """Return the headers of every response; over https also the one that keeps the browser on https."""
    return _ENCRYPTED if scheme == "https" else _ALWAYS
