"""Connections to the web server of a real node, over real sockets: bounded in number, in time and in what they log."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest
import structlog
from structlog.testing import CapturingLogger

from itinerary import Itinerary, every
from itinerary.connections import deadlines
from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import create, new_text
from itinerary.stores.urls import open_store
from itinerary.web import server as web_server
from itinerary.web import stream_limits as streaming
from itinerary.web.access import RateLimits, Slowdown
from itinerary.web.server import WebServer

PATIENCE = 60.0
"""How long something that must happen may take, before a test says that it did not."""


class Site:
    """A node with its web server, and what it logs."""

    def __init__(self, store: str, at: ListenAt, **settings: Any) -> None:
        self.url = store
        self._app = Itinerary(store=store, **settings)
        self._app.job("tick", every("1h")).task(_work)
        self._logger = CapturingLogger()
        self._log = structlog.wrap_logger(
            self._logger,
            processors=[lambda *given: ((given[2],), {})],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        )
        self._at, self._closing = at, ExitStack()

    def __enter__(self) -> Self:
        node = self._closing.enter_context(self._app.running())
        server = WebServer(self._at, log=self._log)
        self.port = server.bind().port
        self._closing.callback(server.stop)
        server.start(node, self._app.configuration)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The events of this name, so far."""
        said = [call.args[0] for call in self._logger.calls]
        return [one for one in said if one["event"] == event]

    def connected(self, receive_buffer: int | None = None) -> socket.socket:
        one = socket.socket()
        if receive_buffer is not None:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        one.settimeout(PATIENCE)
        one.connect(("127.0.0.1", self.port))
        return one

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def refused(self) -> dict[str, int]:
        """What the node says that its web server refused, by status."""
        text = self.ask("/metrics")[1]
        found = re.findall(r'scheduler_http_refused_total{server="web",status="(\w+)"} (\d+)', text)
        return {status: int(count) for status, count in found}

    def head(self, *lines: str, method: str = "GET", path: str = "/health/live") -> bytes:
        return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", *lines, "", ""]).encode()


def _work() -> None: ...


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(f"sqlite:///{tmp_path}/store", ListenAt("127.0.0.1", 0)) as running:
        yield running


def everything(one: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    answer = b""
    with suppress(ConnectionResetError):
        while some := one.recv(65_536):
            answer += some
    return answer


@contextmanager
def many(site: Site, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(site.connected()) for _ in range(count)]


# -- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q4", "connections")
def test_silent_connections_make_room_for_one_that_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "_CONNECTIONS_MAX", 20)
    with Site(f"sqlite:///{tmp_path}/store", ListenAt("127.0.0.1", 0)) as site, many(site, 60) as silent:
        assert site.ask("/health/live")[0] == 200
        for one in silent[:50]:
            assert everything(one) == b"", "the first ones have made room"
        for one in silent[51:]:
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
        assert site.refused()["none"] >= 50
        (line,) = site.logged("connections.refused")
        assert line["server"] == "web"
        assert line["reasons"] == {"too_many_connections": 1}, "the others are told of a minute later"


@pytest.mark.spec("Q4", "connections")
def test_connections_on_which_the_server_works_are_not_closed_for_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "_CONNECTIONS_MAX", 8)
    with Site(f"sqlite:///{tmp_path}/store", ListenAt("127.0.0.1", 0)) as site, many(site, 4) as streams:
        for one in streams:
            one.sendall(site.head("Accept: text/event-stream", path="/api/v1/events"))
            assert one.recv(65_536).startswith(b"HTTP/1.1 200 ")
        with site.connected() as late:
            late.settimeout(PATIENCE)
            assert everything(late) == b"", "refused: all of this address are at work"
        for one in streams:
            one.setblocking(False)
            with suppress(BlockingIOError):
                assert one.recv(65_536), "not closed"


# -- for how long ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q4", "deadlines")
def test_a_head_that_does_not_arrive_in_time_ends_the_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "HEAD_TIMEOUT", 0.2)
    with site.connected() as silent:
        assert everything(silent) == b""
    with site.connected() as slow:
        slow.sendall(site.head()[:-2])
        assert everything(slow).startswith(b"HTTP/1.1 408 ")
    with site.connected() as second:
        second.sendall(site.head() + site.head()[:-2])
        answers = everything(second)
        assert answers.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in answers, "the second request of a connection has a deadline, too"
    assert site.refused() == {"408": 2, "none": 1}


@pytest.mark.spec("Q4", "deadlines")
def test_a_body_that_does_not_arrive_in_time_ends_the_connection(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "BODY_TIMEOUT", 0.2)
    json = ("Content-Type: application/json", "Content-Length: 1000")
    with site.connected() as slow:
        slow.sendall(site.head(*json, method="POST", path="/api/v1/plan") + b"{")
        assert everything(slow).startswith(b"HTTP/1.1 408 ")
    with site.connected() as gone:
        gone.sendall(site.head(*json, method="POST", path="/api/v1/plan") + b"{")
    assert site.refused()["408"] == 1
    assert not site.logged("web.failed")


@pytest.mark.spec("Q4", "deadlines")
def test_a_reader_that_does_not_read_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "READ_TIMEOUT", 0.5)
    page = site.head("Accept: text/html", path="/jobs")
    with site.connected(receive_buffer=4_096) as one:
        one.sendall(page * 300)
        deadline = time.monotonic() + PATIENCE
        while not site.logged("connections.refused"):
            assert time.monotonic() < deadline, "it was never dropped"
            time.sleep(0.05)
        (line,) = site.logged("connections.refused")
        assert line["reasons"] == {"not_reading": 1}
        assert len(everything(one)) < 100_000, "and what waited for it is gone"
    assert site.ask("/health/live")[0] == 200


@pytest.mark.spec("Q4", "deadlines")
def test_a_reader_that_takes_a_few_bytes_at_a_time_is_dropped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "READ_TIMEOUT", 1.0)
    with site.connected(receive_buffer=4_096) as one:
        one.sendall(site.head("Accept: text/html", path="/jobs") * 350)
        deadline = time.monotonic() + PATIENCE
        while not site.logged("connections.refused"):
            assert time.monotonic() < deadline, "it was never dropped"
            assert one.recv(500), "the connection is open until it is dropped"
            time.sleep(0.1)
        (line,) = site.logged("connections.refused")
        assert line["reasons"] == {"not_reading": 1}


@pytest.mark.spec("Q4", "streams")
def test_streams_are_limited_per_token_and_per_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "CALLER_MAX", 3)
    url = f"sqlite:///{tmp_path}/store"
    with Site(url, ListenAt("127.0.0.1", 0), web_proxies=["127.0.0.1"]) as site, ExitStack() as stack:
        tokens = {name: asyncio.run(_token(url, name)) for name in ("one", "two")}

        def follow(path: str, token: str, client: str) -> tuple[socket.socket, int]:
            stream = stack.enter_context(site.connected())
            who = (f"Authorization: Bearer {tokens[token]}", f"X-Forwarded-For: {client}")
            stream.sendall(site.head("Accept: text/event-stream", *who, path=path))
            return stream, int(stream.recv(65_536).split()[1])

        paths = ("/api/v1/events", "/", "/jobs")
        streams = [follow(path, "one", f"192.0.2.{number}") for number, path in enumerate(paths)]
        assert [status for _, status in streams] == [200, 200, 200]
        assert follow("/api/v1/events", "one", "192.0.2.9")[1] == 429, "of this token"
        assert follow("/jobs", "one", "192.0.2.9")[1] == 429, "of this token"
        others = [follow("/jobs", "two", "203.0.113.1") for _ in range(3)]
        assert [status for _, status in others] == [200, 200, 200]
        for stream, _ in streams:
            stream.close()
        deadline = time.monotonic() + PATIENCE
        while follow("/jobs", "one", "192.0.2.9")[1] != 200:
            assert time.monotonic() < deadline, "a stream that has ended leaves its place"
        assert follow("/jobs", "one", "203.0.113.1")[1] == 429, "of this address"


async def _token(url: str, name: str) -> str:
    async with open_store(url) as store:
        return (await create(store, name, Scope.READ, by="test")).text


# -- what is refused ---------------------------------------------------------------------------------------------------

CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.spec("Q2", "request smuggling")
@pytest.mark.parametrize(
    "lengths",
    [
        ("Content-Length: 4", CHUNKED),
        (CHUNKED, "Content-Length: 4"),
        ("content-LENGTH: 0", CHUNKED.swapcase()),
    ],
)
def test_a_request_with_two_lengths_is_refused_and_its_connection_closed(site: Site, lengths: tuple[str, str]) -> None:
    hidden = b"0\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    with site.connected() as one:
        one.sendall(site.head("Content-Type: application/json", *lengths, method="POST", path="/api/v1/plan") + hidden)
        answer = everything(one)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1, "what follows is not taken for a request"
    assert site.refused() == {"400": 1}


@pytest.mark.spec("Q4", "refusals are counted")
def test_refused_requests_are_counted_by_status_and_logged_once_a_minute(
    site: Site, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(30):
        assert site.ask("/", Host="evil.example")[0] == 421
        assert site.ask("/nowhere")[0] == 404
        with site.connected() as nonsense:
            nonsense.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert everything(nonsense).startswith(b"HTTP/1.1 400 ")
        with site.connected() as broken:  # the answer has been sent when the body turns out to be none
            broken.sendall(site.head(CHUNKED, "Host: evil.example", method="POST", path="/login"))
            broken.recv(65_536)
            with suppress(OSError):
                broken.sendall(b"nonsense\r\n")
            everything(broken)
        assert site.ask("/health/live", Connection="Upgrade", Upgrade="websocket")[0] == 200
    assert set(_statuses(site, ["itn_x"] * 30)) == {401, 429}
    counted = site.refused()
    assert counted["421"] >= 30
    assert counted["401"] + counted["429"] == 30
    assert counted["404"] == 30
    assert counted["400"] >= 30
    (line,) = site.logged("connections.refused")
    assert line["clients"] == ["127.0.0.1"]
    said = capfd.readouterr()
    assert "Traceback" not in said.err + said.out
    assert [record for record in caplog.records if record.name.startswith(("uvicorn.error", "asyncio"))] == []
    assert not site.logged("web.failed")


@pytest.mark.spec("Q4", "refusals are counted")
def test_a_browser_that_is_sent_to_sign_in_counts_as_refused(tmp_path: Path) -> None:
    with Site(f"sqlite:///{tmp_path}/store", ListenAt("127.0.0.1", 0), web_local="none") as site:
        assert site.ask("/jobs", Accept="text/html")[0] == 303
        (line,) = site.logged("connections.refused")
        assert line["reasons"] == {"no_token": 1}


@pytest.mark.spec("Q4", "rate")
def test_wrong_tokens_of_an_address_do_not_lock_out_a_right_one_that_was_never_used(site: Site) -> None:
    right = asyncio.run(_token(site.url, "right"))
    made_up = _statuses(site, [new_text() for _ in range(30)])
    assert set(made_up) == {401, 429}
    assert made_up.count(401) >= RateLimits().failures_at_once
    assert site.ask("/jobs", Authorization=f"Bearer {right}")[0] == 200


@pytest.mark.spec("Q4", "rate")
def test_only_who_asks_too_much_waits_for_the_refusal(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    slowed: list[Slowdown] = []

    async def note(slowdown: Slowdown) -> None:
        slowed.append(slowdown)

    monkeypatch.setattr(Slowdown, "wait", note)
    statuses = _statuses(site, ["itn_x"] * 30)
    assert 0 < statuses.count(429) == len(slowed) < len(statuses)


def _statuses(site: Site, tokens: list[str]) -> list[int]:
    """Send requests with these tokens at the same time. Returns the statuses of the answers."""
    with ThreadPoolExecutor(len(tokens)) as pool:
        return list(pool.map(lambda token: site.ask("/jobs", Authorization=f"Bearer {token}")[0], tokens))
