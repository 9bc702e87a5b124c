"""Probes and metrics of a real node, over real sockets: true, bounded, and answered when the node itself hangs."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.app import RunningNode
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
        go_on, engine = threading.Event(), app._running
        assert engine is not None

        def hang() -> None:
            go_on.wait(120)

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
        go_on.set()
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
def test_who_speaks_slowly_or_comes_too_often_is_cut_off(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTION_MAX", 0.5)
    with connected(node) as slow:
        slow.sendall(b"GET /health/live HT")
        assert slow.recv(1) == b""
    monkeypatch.setattr(listener, "CONNECTION_MAX", 15.0)
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 3)
    many = [connected(node) for _ in range(10)]
    try:
        cut = 0
        for one in many:
            one.settimeout(0.5)
            try:
                cut += one.recv(1) == b""
            except ConnectionResetError:
                cut += 1
            except TimeoutError:
                continue
        assert cut == 7
    finally:
        for one in many:
            one.close()
    assert json.loads(eventually(node, "/health/live", "ok"))["status"] == "ok"


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
