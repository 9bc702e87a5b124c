"""Probes and metrics of a real node, over real sockets: true, bounded, and answered when the node itself hangs."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.api import RunningNode
from itinerary.connections import deadlines
from itinerary.errors import ConfigError, NodeError
from itinerary.observe import health, listener
from tests.servers import PostgresServer, postgres_server

__all__ = ["postgres_server"]

TOKEN = "a-long-token-4711"  # noqa: S105 - a canary


def work() -> None:
    """Nothing."""


def app_on(store: str, **settings: object) -> Itinerary:
    app = Itinerary(store=store, health="127.0.0.1:0", **settings)  # type: ignore[arg-type]  # a test's own settings
    app.job("tick", every("1s")).task(work)
    return app


@pytest.fixture(params=["sqlite", "memory", "lmdb", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    match request.param:
        case "memory":
            yield "memory:"
        case "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            with server.database() as url:
                yield url
        case kind:
            yield f"{kind}:///{tmp_path}/store"


def ask(
    node: RunningNode, path: str, method: str = "GET", body: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    host, _, port = (node.health or "").rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {key.lower(): value for key, value in answer.getheaders()}
    finally:
        connection.close()


def eventually(node: RunningNode, path: str, wanted: str, within: float = 60.0) -> str:
    until = time.monotonic() + within
    while True:
        _, text, _ = ask(node, path)
        if wanted in text:
            return text
        assert time.monotonic() < until, f"{wanted!r} never came: {text}"
        time.sleep(0.1)


@pytest.mark.spec("U8", "endpoints")
@pytest.mark.spec("U7", "published")
def test_a_node_that_runs_is_alive_ready_and_gets_on_and_says_what_it_does(store: str) -> None:
    with app_on(store).running() as node:
        for probe in ("live", "ready", "progress"):
            status, text, headers = ask(node, f"/health/{probe}")
            assert (status, json.loads(text)["status"]) == (200, "ok")
            assert headers["content-type"] == "application/json"
            assert headers["cache-control"] == "no-store"
        text = eventually(node, "/metrics", 'scheduler_job_occurrences_total{job="tick",status="completed"}')
        assert "# TYPE scheduler_jobs_running_total gauge" in text
        assert "\nscheduler_nodes 1.0" in text
        assert 'scheduler_task_attempts_total{job="tick",status="success",task="work"}' in text
        assert "\nscheduler_oldest_undecided_seconds" in text
        at = node.health
    assert at is not None
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(at.rpartition(":")[2])), 5)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SILENCE_MAX", 1.5)


@pytest.mark.spec("U8", "live")
@pytest.mark.usefixtures("impatient")
def test_a_node_whose_loop_hangs_is_reported_and_does_not_hang_the_probe(tmp_path: Path) -> None:
    app = app_on(f"sqlite:///{tmp_path}/store")
    with app.running() as node:
        proceed, engine = threading.Event(), app._running
        assert engine is not None

        def hang() -> None:
            proceed.wait(120)

        engine.ask(hang)
        text = eventually(node, "/health/live", "has not answered for")
        begun = time.monotonic()
        status, text, _ = ask(node, "/health/live")
        assert status == 503
        assert "it is blocked" in text
        assert ask(node, "/health/ready")[0] == 503
        assert ask(node, "/health/progress")[0] == 200  # by the store, and not for long
        assert ask(node, "/metrics")[0] == 200
        assert time.monotonic() - begun < 60, "it goes on when it is let go, or in two minutes"
        proceed.set()
        eventually(node, "/health/live", '"ok"')


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with app_on(f"sqlite:///{tmp_path}/store").running() as running:
        yield running


@pytest.mark.spec("U8", "hostile requests")
def test_a_listener_answers_only_what_it_is_for(node: RunningNode) -> None:
    assert ask(node, "/")[0] == 404
    assert ask(node, "/metrics/../secrets")[0] == 404
    status, _, headers = ask(node, "/metrics", "POST")
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert ask(node, "/health/live", "HEAD")[:2] == (200, "")
    assert ask(node, "/health/live", body="x" * 100)[0] == 413
    assert ask(node, "/" + "x" * 100_000)[0] == 400
    assert ask(node, "/health/live", **{"X-Long": "x" * 100_000})[0] == 400
    assert ask(node, "/health/live")[2]["connection"] == "close"


def connected(node: RunningNode) -> socket.socket:
    host, _, port = (node.health or "").rpartition(":")
    return socket.create_connection((host, int(port)), 20)


@pytest.mark.spec("U8", "hostile requests")
def test_a_head_that_does_not_arrive_in_time_ends_the_connection(
    node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "HEAD_TIMEOUT", 0.2)
    with connected(node) as slow:
        slow.sendall(b"GET /health/live HT")
        with suppress(ConnectionResetError):
            assert slow.recv(1) == b""


@pytest.mark.spec("U8", "hostile requests")
def test_silent_connections_make_room_for_a_probe(node: RunningNode) -> None:
    silent = [connected(node) for _ in range(2 * listener.CONNECTIONS_MAX)]
    try:
        assert ask(node, "/health/live")[0] == 200
        for one in silent[: listener.CONNECTIONS_MAX]:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b"", "the first ones have made room"
        assert "none" in refused(node)
    finally:
        for one in silent:
            one.close()


@pytest.mark.spec("Q2", "DNS rebinding")
def test_the_listener_on_loopback_answers_only_to_names_of_loopback(node: RunningNode) -> None:
    port = (node.health or "").rpartition(":")[2]
    for name in ("localhost", "127.0.0.1", "[::1]", f"LOCALHOST:{port}", "localhost:9999"):
        assert ask(node, "/health/live", Host=name)[0] == 200, name
    for name in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "", "@"):
        assert ask(node, "/metrics", Host=name)[0] == 421, name
    assert spoken(node, b"GET /health/live HTTP/1.1\r\n\r\n").split()[1] in {b"400", b"421"}
    twice = b"Host: localhost\r\nHost: evil.example\r\n"
    assert spoken(node, b"GET /health/live HTTP/1.1\r\n" + twice + b"\r\n").split()[1] in {b"400", b"421"}
    assert spoken(node, b"GET /health/live HTTP/1.0\r\n\r\n").split()[1] == b"200", "HAProxy asks like this"
    assert refused(node)["421"] >= 6


@pytest.mark.spec("Q2", "request smuggling")
def test_the_listener_refuses_two_lengths_and_what_is_not_http_without_a_traceback(
    node: RunningNode, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
    both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert spoken(node, head + both).split()[1] == b"400"
    for _ in range(50):
        assert spoken(node, b"\x16\x03\x01 nonsense\r\n\r\n").split()[1] == b"400"
    assert refused(node)["400"] == 51
    assert len([record for record in caplog.records if "refused" in record.getMessage()]) <= 1
    assert not [record for record in caplog.records if record.exc_info]


def spoken(node: RunningNode, said: bytes) -> bytes:
    """Send bytes as they are. Returns everything that comes back."""
    with connected(node) as one:
        one.sendall(said)
        answer = b""
        while some := one.recv(65_536):
            answer += some
        return answer


def refused(node: RunningNode) -> dict[str, int]:
    """What the listener says that it refused, by status."""
    found = re.findall(r'scheduler_http_refused_total{server="health",status="(\w+)"} (\d+)', ask(node, "/metrics")[1])
    return {status: int(count) for status, count in found}


@pytest.mark.spec("U8", "loopback")
@pytest.mark.spec("Q1", "health")
def test_elsewhere_than_on_loopback_a_token_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_SECRET_PROBES", TOKEN)
    with pytest.raises(ConfigError, match=r"health: 0.0.0.0:0 can be reached from elsewhere, and needs a token"):
        Itinerary(health="0.0.0.0:0")
    app = Itinerary(store=f"sqlite:///{tmp_path}/store", health="0.0.0.0:0", health_token="PROBES")  # noqa: S106 - a test's
    with app.running() as node:
        assert ask(node, "/metrics")[0] == 401
        assert ask(node, "/metrics", Authorization=f"Bearer {TOKEN}x")[0] == 401
        assert ask(node, "/metrics", Authorization="Bearer ä".encode().decode("latin-1"))[0] == 401
        assert ask(node, "/nothing")[0] == 401
        assert ask(node, "/metrics", Authorization=f"Bearer {TOKEN}")[0] == 200


def test_a_port_that_is_taken_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        app = Itinerary(store=f"sqlite:///{tmp_path}/store", health=at)
        with pytest.raises(NodeError, match=f"health: {at} cannot be listened on"), app.running():
            pass
        assert not app.is_running


@pytest.mark.parametrize("wrong", ["nowhere", "127.0.0.1:65536", "127.0.0.1:-1", "1.2.3.4:5:6", "user@host:1"])
def test_an_address_that_makes_no_sense_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"health: .* is no address to listen on; write 127.0.0.1:9187"):
        Itinerary(health=wrong)
