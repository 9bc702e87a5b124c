"""Check that a request is meant for this server, by its `Host` header.

The host name matters most on loopback. No token is needed there, since only this machine can connect. But a page of any
site may run in a browser of this machine. The owner of that site may point its name to 127.0.0.1 (DNS rebinding). The
browser then treats our responses as those of that site. Its requests still carry that site's name, so the server
rejects them.

    listens on             accepted hosts
    loopback               localhost, 127.0.0.1, [::1], or the configured host, with the port; with further names: only
                           those
    one address or name    that one, with the port
    all addresses          any name: nothing is served without a token there, and a browser does not send its cookies to
                           another name. With further names: those, and any address but loopback, with the port: no page
                           can point such an address here

The operator sets further names (`web_names`) for a proxy in front of the server or a DNS name. A name without a port
matches all ports. With further names, a proxy may forward any header that a client sends, `Host` included. So loopback
names are then rejected, unless they are among the further names, and no caller is local.

A further name may have the scheme by which browsers reach it: `https://jobs.example.com`. A proxy in front of the
server then speaks https, and the server itself does not: the session cookie is `Secure`, browsers must stay with https,
and only pages of that scheme are ours.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Final

from itinerary.errors import ConfigError
from itinerary.model.text import shown
from itinerary.observe.listen_address import ListenAt, authority

__all__ = ["Hosts"]

_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_PORTS: Final = {"http": 80, "https": 443}


class Hosts:
    """The names of one server."""

    def __init__(self, at: ListenAt, names: Collection[str] = ()) -> None:
        """Parse the further names: `jobs.example.com`, `https://jobs.example.com:8443`. Raises ConfigError."""
        self._port = at.port
        own = authority(f"[{at.host}]" if ":" in at.host else at.host)
        self._own = {own[0]} if own else set()
        self._is_everywhere = own is not None and own[0] in {"0.0.0.0", "::"}  # noqa: S104 - only compared
        if (at.is_loopback or self._is_everywhere) and not names:
            self._own.update(_LOOPBACK)
        if at.is_loopback and names:
            self._own.clear()
        self._names: dict[tuple[str, int | None], str | None] = {}
        """Further names with their schemes; None: no scheme."""
        for name in names:
            scheme, between, rest = name.rpartition("://")
            read = authority(rest)
            if read is None or (between and scheme not in _PORTS):
                raise ConfigError(
                    f"web_names: {shown(name)} is no name of a host; write https://jobs.example.com, or the name alone"
                )
            self._names[read] = scheme or None
        self._shown = ", ".join([str(at), *names])

    def __str__(self) -> str:
        return self._shown

    def has(self, host: str | None, scheme: str) -> bool:
        """True if a request with this `Host` is meant for this server."""
        read = None if host is None else authority(host)
        if read is None:
            return False
        name, port = read
        if self.is_named(host) or (self._is_everywhere and not self._names):
            return True
        is_own = name in self._own or (self._is_everywhere and _is_address(name))
        return is_own and (_PORTS.get(scheme) if port is None else port) == self._port

    def is_named(self, host: str | None) -> bool:
        """True if this is a further name: a proxy that speaks https may be in front of it."""
        return self._found(host) is not None

    def schemes(self, host: str | None, scheme: str) -> frozenset[str]:
        """Return the schemes of our own pages for a request to this host that came by `scheme`.

        A further name without a scheme may be behind a proxy that speaks https, or may not.
        """
        found = self._found(host)
        if found is None:
            return frozenset({scheme})
        known = self._names[found]
        return frozenset({scheme, "https"} if known is None else {known})

    def public_scheme(self, host: str | None, scheme: str) -> str:
        """Return the scheme by which browsers reach this host according to the settings; otherwise `scheme`."""
        found = self._found(host)
        return scheme if found is None else self._names[found] or scheme

    def _found(self, host: str | None) -> tuple[str, int | None] | None:
        """Return the further name that matches a host, with its port or for all ports."""
        read = None if host is None else authority(host)
        return None if read is None else next((key for key in (read, (read[0], None)) if key in self._names), None)


def _is_address(name: str) -> bool:
    """True if a name is an address other than loopback."""
    try:
        return not ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
