"""Addresses as users write them.

to listen on        9187, 127.0.0.1:9187, [::1]:9187, 0.0.0.0:9187; port 0 is a free one
of clients          an address or a network: 127.0.0.1, 10.0.0.0/8
of a server         as in a URL or in `Host`: jobs.example.com:8443
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["ListenAt", "Network", "authority", "read_listen_at", "read_network"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST: Final = "127.0.0.1"
_ADDRESS: Final = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):)?([0-9]{1,5})", re.ASCII)
_AUTHORITY: Final = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}))?", re.ASCII
)
_PORT_MAX: Final = 65_535


class ListenAt(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address. A name other than `localhost` may resolve to any address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_listen_at(key: str, given: str) -> ListenAt:
    """Return the address to listen on. Raise ConfigError, with the key at the start of the message."""
    found = _ADDRESS.fullmatch(given)
    if found is None or int(found[2]) > _PORT_MAX:
        raise ConfigError(f"{key}: {shown(given)} is no address to listen on; write 127.0.0.1:9187, or 9187")
    return ListenAt((found[1] or _HOST).strip("[]"), int(found[2]))


def read_network(key: str, given: str) -> Network:
    """Return an address or a network. Raise ConfigError, with the key at the start of the message."""
    try:
        return ipaddress.ip_network(given)
    except ValueError as error:
        raise ConfigError(
            f"{key}: {shown(given)} is no address and no network; write 127.0.0.1, or 10.0.0.0/8"
        ) from error


@lru_cache(256)
def authority(text: str) -> tuple[str, int | None] | None:
    """Return the normalised host and the port of a URL or a `Host` header; None if unreadable."""
    found = _AUTHORITY.fullmatch(text)
    if found is None or (found[2] is not None and int(found[2]) > _PORT_MAX):
        return None
    host = found[1].lower()
    try:
        host = str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        if host.startswith("["):
            return None
    return host, None if found[2] is None else int(found[2])
