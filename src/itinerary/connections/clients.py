"""Which addresses count as one client."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

__all__ = ["client_key"]

_NETWORK: Final = 64
"""Of an IPv6 address the part that its owner cannot choose."""


@lru_cache(1_024)
def client_key(address: str | None) -> str:
    """Return the name under which an address is counted: an IPv4 address, or an IPv6 network of 64 bits.

    The owner of such a network has more addresses than can be counted.
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
