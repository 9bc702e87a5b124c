"""The addresses that an HTTP call may reach, and the one that it connects to (Q5).

The author of a definition must not reach addresses that only the node can reach: its loopback, the cloud's metadata
service, a database in its network. The executor therefore resolves the host once, and checks every returned address in
any notation. The connection then goes to the checked address, not to the result of a second lookup.

    resolve ──► [check each] ──► PinnedResolver, the only resolver of the connection

A host that the operator allows by name is not checked, but still pinned.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from itinerary.errors import ItineraryError
from itinerary.executors.host_names import is_allowed

__all__ = ["AddressRefused", "HostLookup", "checked_addresses", "refusal", "system_lookup"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

HostLookup: TypeAlias = Callable[[str, int], Awaitable[Collection[str]]]
"""A function from a host and a port to its addresses, as text."""

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_KINDS: Final = (
    ("unspecified", "is_unspecified"),
    ("loopback", "is_loopback"),
    ("link-local", "is_link_local"),
    ("multicast", "is_multicast"),
    ("private", "is_private"),
    ("reserved", "is_reserved"),
)
_OTHERS: Final = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("100.64.0.0/10", "shared (carrier)"),
        ("192.0.0.0/24", "reserved"),
        ("192.88.99.0/24", "reserved (6to4 relay)"),
        ("198.18.0.0/15", "reserved (benchmarks)"),
        ("64:ff9b:1::/48", "private (local NAT64)"),
        ("100::/64", "reserved (discard)"),
        ("2001::/23", "reserved (Teredo and others)"),
        ("2002::/16", "reserved (6to4)"),
        ("3fff::/20", "reserved (documentation)"),
        ("5f00::/16", "reserved (segment routing)"),
        ("fec0::/10", "private (site-local)"),
    )
)
"""Networks that `ipaddress` does not classify, or not in every version of Python."""


class AddressRefused(ItineraryError):
    """A host that resolves to an address which calls may not reach."""


async def system_lookup(host: str, port: int) -> list[str]:
    """Look up a host with the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def checked_addresses(
    host: str, port: int, allowed: Collection[str], lookup: HostLookup = system_lookup
) -> list[str]:
    """Return the addresses of a host, after a check that calls may reach all of them.

    Args:
        host: The host name or address.
        port: The port.
        allowed: The hosts that the operator allows.
        lookup: Resolves the host.

    Raises:
        AddressRefused: If a call may not reach one of the addresses.
        OSError: If the host has no address.
    """
    addresses = list(await lookup(host, port))
    if not addresses:
        raise OSError(f"{host} has no address")
    if is_allowed(host, port, allowed):
        return addresses
    for text in addresses:
        why = refusal(text)
        if why is not None:
            raise AddressRefused(
                f"{host} is refused: it leads to {text}, which is {why}; "
                f"if that is meant, allow the host {host!r} in the node's settings"
            )
    return addresses


def refusal(text: str) -> str | None:
    """Return why a call may not reach an address; None if it may. Text that is not an address is refused."""
    try:
        address: Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "no address"
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _kind(inner)
    return _kind(address)


def _kind(address: Address) -> str | None:
    for kind, attribute in _KINDS:
        if getattr(address, attribute):
            return kind
    for network, kind in _OTHERS:
        if address.version == network.version and address in network:
            return kind
    return None if address.is_global else "not public"
