"""The user behind a connection, as the kernel says it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from itinerary.web.access import peers
from itinerary.web.access.peers import Connection, can_identify, is_trusted, owner_of, user_name

pytestmark = [
    pytest.mark.spec("Q2", "local"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which user opened a connection"),
]
NOBODY = 65_534
PATIENCE = 60.0
AS_NOBODY = f"""
import os, sys
import _socket
os.setuid({NOBODY})
caller = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
caller.connect(("127.0.0.1", int(sys.argv[1])))
sys.stdin.read()
"""
"""It imports nothing once it is another user, who may not read this interpreter's files."""


def connected(server: socket.socket, family: int, address: tuple[str, int]) -> tuple[socket.socket, socket.socket]:
    """Connect to a server: the caller's end, and ours."""
    caller = socket.socket(family)
    caller.settimeout(PATIENCE)
    caller.connect(address)
    return caller, server.accept()[0]


def seen(ours: socket.socket) -> Connection:
    """The connection as our own socket has it."""
    return Connection(ours.getpeername()[:2], ours.getsockname()[:2])


def test_this_system_says_which_user_opened_a_connection() -> None:
    assert can_identify()


EACH_KIND = pytest.mark.parametrize(
    ("listens", "family", "host"),
    [
        ("127.0.0.1", socket.AF_INET, "127.0.0.1"),
        ("127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1"),
        ("::1", socket.AF_INET6, "::1"),
    ],
)


@EACH_KIND
def test_without_netlink_the_tables_of_the_kernel_say_the_same(
    listens: str, family: int, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "_SOCK_DIAG", 9_999)  # the kernel knows no such protocol, as in a sandbox
    test_a_connection_of_this_process_is_of_its_user(listens, family, host)
    test_a_caller_that_has_hung_up_is_not_taken_for_root()
    test_a_connection_that_does_not_exist_has_no_user()


@EACH_KIND
def test_a_connection_of_this_process_is_of_its_user(listens: str, family: int, host: str) -> None:
    its = socket.AF_INET6 if ":" in listens else socket.AF_INET
    try:
        server = socket.create_server((listens, 0), family=its)
    except OSError as error:
        pytest.skip(f"{listens} cannot be listened on: {error}")
    with server:
        caller, ours = connected(server, family, (host, server.getsockname()[1]))
        with caller, ours:
            assert owner_of(seen(ours)) == os.geteuid()
            assert is_trusted(os.geteuid())


def test_a_caller_that_has_hung_up_is_not_taken_for_root() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        caller, ours = connected(server, socket.AF_INET, server.getsockname())
        with ours:
            caller.close()
            assert owner_of(seen(ours)) is None


def test_a_connection_that_does_not_exist_has_no_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert owner_of(Connection(("127.0.0.1", 1), server.getsockname())) is None, "not the listening socket's"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_connection_of_another_user_is_of_that_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        command = [sys.executable, "-c", AS_NOBODY, str(server.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as other:  # noqa: S603 - our own
            try:
                ours, _ = server.accept()
                with ours:
                    assert owner_of(seen(ours)) == NOBODY
                    assert not is_trusted(NOBODY)
            finally:
                other.kill()


def test_a_user_without_a_name_is_called_by_its_number() -> None:
    assert user_name(0) == "root"
    assert user_name(3_999_999_999) == "3999999999"
