"""The resolver of one connection: it knows one host, whose addresses were checked before (see `address_policy`)."""

from __future__ import annotations

import socket
from collections.abc import Collection

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["PinnedResolver"]


class PinnedResolver(AbstractResolver):
    """A resolver that knows one host and its addresses."""

    def __init__(self, host: str, addresses: Collection[str]) -> None:
        self._host = host
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - the base class's signature
    ) -> list[ResolveResult]:
        assert host == self._host, "a call goes to one host"
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing: there are no resources to release."""
