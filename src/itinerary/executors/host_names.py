"""Lists of hosts that an operator allows: `name` for all ports, or `name:port` for one."""

from __future__ import annotations

from collections.abc import Collection

from itinerary.errors import ConfigError

__all__ = ["is_allowed", "read_allowed"]


def is_allowed(host: str, port: int, allowed: Collection[str]) -> bool:
    """True if the operator allows a host, for all ports (`host`) or for this one (`host:port`)."""
    name = host.lower().rstrip(".")
    bracketed = f"[{name}]" if ":" in name else name
    return name in allowed or f"{bracketed}:{port}" in allowed


def read_allowed(hosts: Collection[str]) -> frozenset[str]:
    """Return an allow list in its normal form. Raises ConfigError if it is not a list of names."""
    if isinstance(hosts, str) or not all(isinstance(host, str) and host for host in hosts):
        raise ConfigError("allowed hosts: give a list of names such as 'metrics.internal' or 'metrics.internal:8080'")
    return frozenset(host.lower().rstrip(".") for host in hosts)
