"""Whether a request is meant for this server, by the name that it was sent to.

The name matters most on loopback. There nobody is asked for a token, since only this machine can connect. But a page of
any site may run in a browser of this machine, and its owner may have its name lead to 127.0.0.1 (DNS rebinding): then
the browser takes our answers for those of that site. Its requests still carry that site's name, so they are refused.

    listens on             is reached as
    loopback               localhost, 127.0.0.1, [::1], or as it was told to listen, with the port
    one address or name    that, with the port
    all addresses          anything that is a name: without a token nothing is to be had there, and what a browser keeps
                           for this server it does not send to another name. With further names: those, and
                           `localhost` and any address, with the port, which no page can have made lead here

Further names, for a proxy in front of it or a name in the DNS, are the operator's to give; without a port one is good
for all ports. Who asks by one of them may come from anywhere, through a proxy on this machine, and is never taken for
somebody who is here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from itinerary.errors import ConfigError
from itinerary.model.text import shown
from itinerary.observe.addresses import ListenAt

__all__ = ["Hosts", "authority"]

_AUTHORITY: Final = re.compile(
    r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::([0-9]{1,5}))?", re.ASCII
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": 80, "https": 443}
_PORT_MAX: Final = 65_535


@lru_cache(256)
def authority(text: str) -> tuple[str, int | None] | None:
    """A host, in one spelling, and a port, as they stand in a URL or in `Host`; None if that cannot be read."""
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


class Hosts:
    """The names of one server."""

    def __init__(self, at: ListenAt, names: Collection[str] = ()) -> None:
        """`names` are further ones: `jobs.example.com`, `jobs.example.com:8443`. Raises ConfigError."""
        self._port = at.port
        own = authority(f"[{at.host}]" if ":" in at.host else at.host)
        self._own = {own[0]} if own else set()
        self._is_everywhere = own is not None and own[0] in {"0.0.0.0", "::"}  # noqa: S104 - looked at
        if at.is_loopback or self._is_everywhere:
            self._own.update(_LOOPBACK)
        self._names: set[tuple[str, int | None]] = set()
        for name in names:
            if (read := authority(name)) is None:
                raise ConfigError(f"web: {shown(name)} is no name of a host; write jobs.example.com, without https://")
            self._names.add(read)
        self._shown = ", ".join([str(at), *names])

    def __str__(self) -> str:
        return self._shown

    def has(self, host: str | None, scheme: str) -> bool:
        """Whether a request with this `Host` is meant for this server."""
        read = None if host is None else authority(host)
        if read is None:
            return False
        name, port = read
        if self.is_named(host) or (self._is_everywhere and not self._names):
            return True
        is_own = name in self._own or (self._is_everywhere and _is_address(name))
        return is_own and (_PORTS.get(scheme) if port is None else port) == self._port

    def is_named(self, host: str | None) -> bool:
        """Whether this is one of the further names: there may be a proxy in front of it, which speaks https for us."""
        read = None if host is None else authority(host)
        return read is not None and not self._names.isdisjoint({read, (read[0], None)})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
