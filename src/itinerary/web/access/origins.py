"""Detect requests that a page of another site sends (Q2).

A browser reports the site in two headers that no page can change: `Sec-Fetch-Site`, and `Origin` on every request that
is not a plain read. Another port of this machine is another origin too, though the same *site*: another user's program
may run there.

    a change    rejected if either header names another site
    a read      rejected as well, unless the user followed a link: then only that user sees the page

A browser writes `Origin: null` with a form that another site has put into a sandbox. With our own forms it does so if a
proxy sets `Referrer-Policy: no-referrer`. Only `Sec-Fetch-Site` distinguishes the two.

A client that is no browser sends neither header, and no page controls it.
"""

from __future__ import annotations

from typing import Final

from itinerary.observe.listen_address import authority
from itinerary.web.access.callers import SAFE_METHODS
from itinerary.web.access.headers import RequestHeaders
from itinerary.web.access.hosts import Hosts

__all__ = ["BROWSER_MARKS", "foreign_origin"]

BROWSER_MARKS: Final = frozenset({"origin", "referer", "cookie", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"})
"""Headers of which a browser sends at least one with every change that a page makes."""
_OURS: Final = frozenset({"same-origin", "none"})
_FRAMES: Final = frozenset({"iframe", "frame", "object", "embed", "fencedframe"})


def foreign_origin(method: str, heads: RequestHeaders, scheme: str, hosts: Hosts) -> str | None:
    """Return the origin or site of a request that a page of another site sent; None if no such page did."""
    origin, site = heads.get("origin"), heads.get("sec-fetch-site")
    is_hidden = origin == "null" and site == "same-origin"
    if origin is not None and not is_hidden and not _is_own(origin, heads.get("host"), scheme, hosts):
        return origin
    if site is None or site in _OURS or (method in SAFE_METHODS and _is_link(heads)):
        return None
    return site


def _is_own(origin: str, host: str | None, scheme: str, hosts: Hosts) -> bool:
    """True if the origin is one of our pages. Behind an https proxy the page is https, and this server is not."""
    said, between, rest = origin.partition("://")
    return (
        bool(between)
        and said in hosts.schemes(host, scheme)
        and host is not None
        and (own := authority(host)) is not None
        and (authority(rest) == own)
    )


def _is_link(heads: RequestHeaders) -> bool:
    """True if the user followed a link in a top-level window."""
    return heads.get("sec-fetch-mode") == "navigate" and heads.get("sec-fetch-dest") not in _FRAMES
