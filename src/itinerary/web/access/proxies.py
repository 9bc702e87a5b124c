"""Proxies that the operator trusts (`web_proxies`), and the client behind them.

    peer                  X-Forwarded-For, Forwarded      the client that counts
    not our proxy         anything                        the peer
    our proxy             exactly one of the two          the last address in it that is not our proxy
    our proxy             none, both, or unreadable       the peer

Each proxy appends the address that connected to it, so the list is read from its end. Entries before the first address
that is not our proxy may be forged. A proxy writes one of the two headers and forwards the other as the client sent it.
So if both are present, neither counts.

The client counts for limits and for the log. The address never proves an identity: a request with such a header is
never that of a local caller (see `local`).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from typing import Final

from itinerary.connections.clients import client_key
from itinerary.observe.listen_address import Network, read_network
from itinerary.web.access.headers import RequestHeaders

__all__ = ["Proxies"]

_HOPS_MAX: Final = 20
"""The maximum number of addresses that are read, from the end."""
_FOR: Final = re.compile(r"""(?:^|;)\s*for\s*=\s*("[^"]*"|[^;"\s]*)""", re.ASCII | re.IGNORECASE)
_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|([0-9.]+):\d+", re.ASCII)

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxies:
    """The proxies of one server."""

    def __init__(self, given: Collection[str] = ()) -> None:
        """Parse addresses and networks: `127.0.0.1`, `10.0.0.0/8`. Raises ConfigError."""
        self._networks: list[Network] = [read_network("web_proxies", text) for text in given]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        """True if an address is that of a proxy."""
        return bool(self._networks) and (read := _read(address)) is not None and self._has(read)

    def client_of(self, peer: str | None, heads: RequestHeaders) -> str:
        """Return the key of the client that the limits count for a request (see `clients`)."""
        if peer is None or peer not in self:
            return client_key(peer)
        listed, forwarded = heads.get("x-forwarded-for"), heads.get("forwarded")
        if (listed is None) == (forwarded is None):
            return client_key(peer)
        hops = _hops(listed) if listed is not None else _forwarded(forwarded or "")
        return client_key(self._first_stranger(hops) or peer)

    def _first_stranger(self, hops: Sequence[str]) -> str | None:
        """Return the last address that is not our proxy; None if a hop after it cannot be parsed."""
        for hop in reversed(hops[-_HOPS_MAX:]):
            if (address := _read(hop)) is None:
                return None
            if not self._has(address):
                return str(address)
        return None

    def _has(self, address: _Address) -> bool:
        return any(address in network for network in self._networks)


def _hops(text: str) -> list[str]:
    return [hop.strip() for hop in text.split(",")]


def _forwarded(text: str) -> list[str]:
    """Parse the `for` of each element of `Forwarded` (RFC 7239); an empty text where an element has none."""
    found = (_FOR.search(element) for element in text.split(","))
    return ["" if one is None else one[1].strip('"') for one in found]


def _read(text: str) -> _Address | None:
    """Parse an address, with or without a port. An IPv4 address within IPv6 becomes the IPv4 address."""
    if (with_port := _WITH_PORT.fullmatch(text)) is not None:
        text = with_port[1] or with_port[2]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
