"""Where to listen, as people write it: `9187`, `127.0.0.1:9187`, `[::1]:9187`, `0.0.0.0:9187`; port 0 is a free one."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["ListenAt", "read_listen_at"]

_HOST: Final = "127.0.0.1"
_ADDRESS: Final = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):)?([0-9]{1,5})", re.ASCII)
_PORT_MAX: Final = 65_535


class ListenAt(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than `localhost` may lead anywhere."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_listen_at(key: str, given: str) -> ListenAt:
    """The address that was written. Raises ConfigError, which begins with the key."""
    found = _ADDRESS.fullmatch(given)
    if found is None or int(found[2]) > _PORT_MAX:
        raise ConfigError(f"{key}: {shown(given)} is no address to listen on; write 127.0.0.1:9187, or 9187")
    return ListenAt((found[1] or _HOST).strip("[]"), int(found[2]))
