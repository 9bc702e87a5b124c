"""The user behind a connection on this machine.

Loopback keeps other machines out, but not other users of this machine. On Linux the kernel reports which user opened a
connection. The query names the caller's socket: its local address is the caller's, and its remote address is ours. The
query goes over netlink (`sock_diag`), which looks up one socket in microseconds. Where a sandbox forbids netlink, the
same facts are read from `/proc/net/tcp` and `tcp6`, which takes milliseconds.

A socket that its process has closed has no user, and the kernel reports 0, which is root. So only an established socket
with an inode counts: a caller that sends a request and hangs up is not taken for root.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
import struct
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Connection", "can_identify", "is_trusted", "owner_of", "user_name"]

_NETLINK: Final = getattr(socket, "AF_NETLINK", None)
"""None on systems other than Linux."""
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ESTABLISHED: Final = 1
_ANY_COOKIE: Final = (0xFFFFFFFF, 0xFFFFFFFF)
_HEADER: Final = struct.Struct("=IHHII")
"""The header of a netlink message: length, type, flags, sequence number, port."""
_ASKED: Final = struct.Struct("=BBBxI")
"""A socket query: family, protocol, extensions, states; the two ends follow."""
_ENDS: Final = struct.Struct("=2s2s16s16sIII")
"""The two ends of a socket: ports in network order, addresses, the interface, a cookie in two parts."""
_FOUND: Final = struct.Struct(f"=BBBB{_ENDS.size}sIIIII")
"""Family, state, timer, retransmissions, the ends, expiry, two queues, user, inode."""
_ADDRESSES_END: Final = 4 + 16 + 16
"""The offset in `_ENDS` after the ports and addresses."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""The prefix of an IPv4 address within IPv6."""
_ANSWER_TIMEOUT: Final = 1.0
_ANSWER_MAX: Final = 4_096
_TABLES: Final[Mapping[int, Path]] = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
"""The kernel's socket tables.

Fields: number, local end, remote end, state, queues, timer, retransmissions, user, timeout, inode.
"""


class Connection(msgspec.Struct, frozen=True):
    """The two ends of a TCP connection, as our own socket has them."""

    client: tuple[str, int]
    server: tuple[str, int]


@cache
def can_identify() -> bool:
    """True if this system reports which user opened a connection. Tries the lookup on a connection to itself."""
    if _NETLINK is None:
        return False
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        return owner_of(Connection(client.getsockname(), server.getsockname())) == os.geteuid()


def owner_of(connection: Connection) -> int | None:
    """Look up the id of the user who opened a connection to us. None if no such open socket exists."""
    client, server = (_address(host) for host, _ in (connection.client, connection.server))
    families = [socket.AF_INET6] if client.version == 6 else [socket.AF_INET, socket.AF_INET6]
    for family in families:  # a socket for IPv6 may be connected to an IPv4 address
        source, target = (_packed(address, family) for address in (client, server))
        ports = (port.to_bytes(2, "big") for _, port in (connection.client, connection.server))
        ends = _ENDS.pack(*ports, source, target, 0, *_ANY_COOKIE)
        try:
            found = _ask(family, ends)
        except OSError:  # a sandbox may forbid the question
            found = _read_table(family, source, target, connection)
        if found is not None:
            return found
    return None


def is_trusted(number: int) -> bool:
    """True if a user may act for the node: the node's own user, or root."""
    return number in (0, os.geteuid())


def user_name(number: int) -> str:
    """Return the name of a user of this machine, or the user id if it has no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _ask(family: int, ends: bytes) -> int | None:
    """Query the kernel for one socket. Returns its user id if it is open and established. Raises OSError."""
    assert _NETLINK is not None, "only asked on Linux"
    asked = _ASKED.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends
    with socket.socket(_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_TIMEOUT)
        kernel.send(_HEADER.pack(_HEADER.size + len(asked), _BY_FAMILY, _REQUEST, 1, 0) + asked)
        answer = kernel.recv(_ANSWER_MAX)
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    if kind != _BY_FAMILY or len(answer) < _HEADER.size + _FOUND.size:
        return None
    _, state, _, _, found, _, _, _, user, inode = _FOUND.unpack_from(answer, _HEADER.size)
    is_the_one = found[:_ADDRESSES_END] == ends[:_ADDRESSES_END]
    return int(user) if is_the_one and state == _ESTABLISHED and inode else None


def _read_table(family: int, source: bytes, target: bytes, connection: Connection) -> int | None:
    """Look up one socket in the kernel's table. Returns its user id if it is open and established."""
    length = 4 if family == socket.AF_INET else 16
    ends = ((source, connection.client[1]), (target, connection.server[1]))
    wanted = [f"{_words(address[:length])}:{port:04X}" for address, port in ends]
    try:
        lines = _TABLES[family].read_text("ascii").splitlines()
    except OSError:
        return None  # the table is hidden as well: the user is unknown
    for fields in map(str.split, lines):
        if fields[1:3] == wanted and int(fields[3], 16) == _ESTABLISHED and fields[9] != "0":
            return int(fields[7])
    return None


def _words(address: bytes) -> str:
    """Spell an address as the kernel prints it: word by word, in the byte order of this machine."""
    words = (address[at : at + 4] for at in range(0, len(address), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address; an IPv4 address within IPv6 becomes the IPv4 address."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _packed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, family: int) -> bytes:
    """Encode an address in 16 bytes, as a socket of this family has it."""
    if family == socket.AF_INET:
        return address.packed.ljust(16, b"\0")
    return _MAPPED + address.packed if address.version == 4 else address.packed
