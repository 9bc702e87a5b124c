"""Whether a page of another site is behind a request (Q2).

A browser says so itself, in two ways that no page can change: `Sec-Fetch-Site`, and `Origin` for everything that is not
plain looking. Another port of this machine is another origin too, though the same *site*: what runs there is somebody
else's program.

    a change          is refused if either says that it comes from elsewhere
    a look            is refused as well, unless somebody followed a link: what is then seen, only they see

A browser writes `Origin: null` with a form that another site has put into a sandbox, and with one of ours if a proxy
has told it to say nowhere where it is (`Referrer-Policy: no-referrer`). Only `Sec-Fetch-Site` knows the difference.

Whatever is no browser says nothing, and cannot be led astray by a page.
"""

from __future__ import annotations

from typing import Final

from itinerary.observe.listen_address import authority
from itinerary.web.access.callers import SAFE_METHODS
from itinerary.web.access.headers import Heads
from itinerary.web.access.hosts import Hosts

__all__ = ["BROWSER_MARKS", "foreign_origin"]

BROWSER_MARKS: Final = frozenset({"origin", "referer", "cookie", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"})
"""Headers of which a browser sends at least one with every change that a page makes."""
_OURS: Final = frozenset({"same-origin", "none"})
_FRAMES: Final = frozenset({"iframe", "frame", "object", "embed", "fencedframe"})


def foreign_origin(method: str, heads: Heads, scheme: str, hosts: Hosts) -> str | None:
    """Where a request comes from that a page of another site has made; None if it comes from none."""
    origin, site = heads.get("origin"), heads.get("sec-fetch-site")
    is_hidden = origin == "null" and site == "same-origin"
    if origin is not None and not is_hidden and not _is_own(origin, heads.get("host"), scheme, hosts):
        return origin
    if site is None or site in _OURS or (method in SAFE_METHODS and _is_link(heads)):
        return None
    return site


def _is_own(origin: str, host: str | None, scheme: str, hosts: Hosts) -> bool:
    """Whether a page of ours has made it. Behind a proxy that speaks https, the page is https and we are not."""
    said, between, rest = origin.partition("://")
    return (
        bool(between)
        and said in hosts.schemes(host, scheme)
        and host is not None
        and (own := authority(host)) is not None
        and (authority(rest) == own)
    )


def _is_link(heads: Heads) -> bool:
    """Whether somebody followed a link, in a window of its own."""
    return heads.get("sec-fetch-mode") == "navigate" and heads.get("sec-fetch-dest") not in _FRAMES
