"""A real node behind real proxies, and callers of this machine: no caller gets in without a token (Q1, Q2)."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import msgspec
import pytest

from itinerary.web.access.peers import user_name
from tests.e2e.access.nodes import ask, make_token, node, port_of, status_line
from tests.e2e.access.proxies import KINDS, NAMED, proxy
from tests.e2e.cli.program import PATIENCE

FORWARDING = {
    "Forwarded": "for=192.0.2.1",
    "X-Forwarded-For": "192.0.2.1",
    "X-Forwarded-Host": "jobs.example.com",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Forwarded-Server": "proxy",
    "Via": "1.1 proxy",
    "X-Real-IP": "192.0.2.1",
    "CF-Connecting-IP": "192.0.2.1",
    "True-Client-IP": "192.0.2.1",
}


def status(port: int, host: str, *headers: str, user: int | None = None, at: str = "127.0.0.1") -> int:
    """Ask for the jobs, as a user of this machine. Returns the status of the answer."""
    lines = ["GET /api/v1/jobs HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    return status_line(port, "\r\n".join(lines), user=user, host=at)


@pytest.mark.spec("Q1", "behind a proxy")
@pytest.mark.parametrize("is_bare", [False, True], ids=["as documented", "bare"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_caller_is_local_behind_a_proxy_whatever_host_it_names(kind: str, is_bare: bool, tmp_path: Path) -> None:
    text = make_token(tmp_path)
    with node(tmp_path, NAMED) as address, proxy(kind, tmp_path / kind, address, is_bare=is_bare) as port:
        own = port_of(address)
        for host in (address, f"localhost:{own}", f"[::1]:{own}", "127.0.0.1", "other.example.com"):
            assert status(port, host) == 421, host
        assert status(port, "jobs.example.com") == 401
        assert status(port, "jobs.example.com", f"Authorization: Bearer {text}") == 200
        assert status(own, address) == 421, "past the proxy, too"


@pytest.mark.spec("Q1", "behind a proxy")
@pytest.mark.parametrize("kind", KINDS)
def test_the_documented_proxy_without_a_name_in_the_settings_makes_no_caller_local(kind: str, tmp_path: Path) -> None:
    with node(tmp_path) as address, proxy(kind, tmp_path / kind, address) as port:
        assert status(port, address) == 401
        assert status(port_of(address), address) == 200, "past the proxy the caller is the node's own user"


@pytest.mark.spec("Q1", "behind a proxy")
@pytest.mark.skipif(os.geteuid() != 0, reason="a proxy has a user of its own only if root starts it")
def test_a_proxy_without_a_name_in_the_settings_gets_no_further_than_any_other_user(tmp_path: Path) -> None:
    with node(tmp_path) as address, proxy("nginx", tmp_path / "nginx", address, is_bare=True) as port:
        assert status(port, address) == 401, "the connection is of nginx's own user"
        assert status(port_of(address), address) == 200


@pytest.mark.spec("Q1", "behind a proxy")
def test_a_request_with_a_header_that_a_proxy_adds_is_not_local(tmp_path: Path) -> None:
    with node(tmp_path) as address:
        port = port_of(address)
        for name, value in FORWARDING.items():
            assert status(port, address, f"{name}: {value}") == 401, name
            assert status(port, address, f"{name.lower()}: {value}") == 401, name
            assert status(port, address, f"{name.upper()}:") == 401, f"{name}, and nothing in it"
        assert status(port, address) == 200


@pytest.mark.spec("Q2", "local")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_needs_a_token(tmp_path: Path) -> None:
    with node(tmp_path) as address:
        port = port_of(address)
        assert status(port, address) == 200
        assert status(port, address, user=65_534) == 401
        text = make_token(tmp_path)
        assert status(port, address, f"Authorization: Bearer {text}", user=65_534) == 200


@pytest.mark.spec("Q2", "local")
def test_over_ipv6_the_user_behind_a_connection_counts_as_well(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with node(tmp_path, web="[::1]:0") as address:
        assert status(port_of(address), address, at="::1") == 200
        if os.geteuid() == 0:
            assert status(port_of(address), address, at="::1", user=65_534) == 401


@pytest.mark.spec("Q2", "local")
def test_a_local_caller_may_operate_until_the_store_has_a_token_and_nothing_then(tmp_path: Path) -> None:
    post = {"Content-Type": "application/json"}
    with node(tmp_path) as address:
        assert ask(address, "/api/v1/jobs/hourly/pause", post, "POST", "{}").status == 200
        assert ask(address, "/api/v1/prune", post, "POST", "{}").status == 403, "that needs admin"
        make_token(tmp_path)
        deadline = time.monotonic() + PATIENCE
        while ask(address, "/api/v1/jobs").status == 200:
            assert time.monotonic() < deadline, "the node never looks again whether there is a token"
        assert ask(address, "/api/v1/jobs").status == 401
        assert ask(address, "/api/v1/jobs/hourly/resume", post, "POST", "{}").status == 401


@pytest.mark.spec("Q2", "local")
@pytest.mark.parametrize(
    ("granted", "read", "operate", "admin"),
    [("admin", 200, 200, 200), ("operate", 200, 200, 403), ("read", 200, 403, 403), ("none", 401, 401, 401)],
)
def test_web_local_says_what_a_local_caller_may_do(
    granted: str, read: int, operate: int, admin: int, tmp_path: Path
) -> None:
    post = {"Content-Type": "application/json"}
    with node(tmp_path, f'web_local = "{granted}"\n') as address:
        assert ask(address, "/api/v1/jobs").status == read
        assert ask(address, "/api/v1/jobs/hourly/pause", post, "POST", "{}").status == operate
        assert ask(address, "/api/v1/prune", post, "POST", "{}").status == admin


@pytest.mark.spec("Q2", "local")
def test_the_change_log_keeps_the_name_of_the_user_of_this_machine(tmp_path: Path) -> None:
    with node(tmp_path) as address:
        assert (
            ask(address, "/api/v1/jobs/hourly/pause", {"Content-Type": "application/json"}, "POST", "{}").status == 200
        )
        told = msgspec.json.decode(ask(address, "/api/v1/jobs/hourly").body)
    pauses = [change for change in told["changes"] if change["kind"] == "pause"]
    assert [change["by"] for change in pauses] == [user_name(os.geteuid())]
