"""The key under which the server counts the connections of a client."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

__all__ = ["client_key"]

_NETWORK: Final = 64
"""The bits of an IPv6 address that its owner cannot choose."""


@lru_cache(1_024)
def client_key(address: str | None) -> str:
    """Return the key under which an address is counted: an IPv4 address, or a 64-bit IPv6 network.

    The owner of such a network can use any number of addresses in it.
    """
    try:
        ip = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.IPv6Network((ip, _NETWORK), strict=False))
    return str(ip)
