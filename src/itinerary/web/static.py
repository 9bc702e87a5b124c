"""The style sheet, the script and the icon: small files of our own, addressed by their content.

The address of a file contains its hash, so a browser caches it permanently, and loads the new one after an upgrade.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import Final

from itinerary.web.access import PUBLIC
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import page

__all__ = ["static_file", "static_url"]

_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_EVER: Final = "max-age=31536000, public, immutable"


@cache
def _contents() -> dict[str, tuple[bytes, str]]:
    """Return the files by name, with their hashes."""
    found = {}
    for entry in (files("itinerary.web") / "static").iterdir():
        if entry.is_file() and "." + entry.name.rpartition(".")[2] in _TYPES:
            body = entry.read_bytes()
            found[entry.name] = (body, blake2b(body, digest_size=6).hexdigest())
    return found


def static_url(name: str) -> str:
    """Return the address of a file."""
    return f"/static/{_contents()[name][1]}/{name}"


@page("/static/{known}/{name}", needs=PUBLIC)
async def static_file(_: Request, known: str, name: str) -> Response[bytes]:
    """A file, under the address that names its content."""
    body, digest = _contents().get(name, (b"", ""))
    if not digest or known != digest:
        raise RequestRefused(404, "Not found", "there is no such file")
    media = _TYPES["." + name.rpartition(".")[2]]
    return Response(body, media_type=media, headers={"Cache-Control": _FOR_EVER})
