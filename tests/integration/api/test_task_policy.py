"""A node goes by its own settings, whatever the program was allowed that put a job into the store (Q3, Q7)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from itinerary import Itinerary, cron
from itinerary.errors import ConfigError
from itinerary.model.report import OccurrenceReport
from itinerary.model.states import OccurrenceState

NEVER = cron("0 5 1 1 *")
PRIVILEGED = {"spec": {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}}
WITHIN = 60.0


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """An HTTP server on loopback: its port, and the secrets that came."""
    came: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            came.append(self.headers.get("Authorization", ""))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    yield listening.server_address[1], came
    listening.shutdown()
    thread.join(WITHIN)
    listening.server_close()


def ran(app: Itinerary, job: str) -> OccurrenceReport:
    """The report of one run on a real node."""
    with app.running() as node:
        return app.blocking(node.wait(app.blocking(app[job].trigger())))


@pytest.mark.spec("Q3", "pods")
def test_a_node_creates_no_pod_that_its_own_settings_refuse(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/x.db"
    lenient = Itinerary(store=store, pod_allow=["privileged"])
    lenient.job("train", NEVER).pod("fit", image="models/train:7", template=PRIVILEGED)
    with lenient.running():
        pass
    strict = Itinerary(store=store)
    with pytest.raises(ConfigError, match=r"job 'train', task 'fit': pod\.template: asks for privileged"):
        strict.job("train", NEVER).pod("fit", image="models/train:7", template=PRIVILEGED)
    report = ran(Itinerary(store=store), "train")
    assert report.outcome is OccurrenceState.FAILED
    assert "asks for privileged" in str(report.tasks[0].attempts[0].error)
    report = ran(Itinerary(store=store, pod_allow=["privileged"], pod_images=["jobs/*"]), "train")
    assert "pod.image: 'models/train:7' is not allowed (allowed: jobs/*)" in str(report.tasks[0].attempts[0].error)


@pytest.mark.spec("Q7", "hosts of secrets")
def test_a_node_sends_no_secret_where_its_own_settings_do_not_let_it_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[int, list[str]]
) -> None:
    port, came = server
    store, url = f"sqlite:///{tmp_path}/x.db", f"http://127.0.0.1:{port}/"
    monkeypatch.setenv("ITINERARY_SECRET_API", "canary")
    allowed, headers = [f"127.0.0.1:{port}"], {"Authorization": {"secret": "API"}}
    unbound = Itinerary(store=store, allow_hosts=allowed)
    unbound.job("call", NEVER).http("do", url, headers=headers)
    assert ran(unbound, "call").outcome is OccurrenceState.COMPLETED
    elsewhere = {"API": ["api.example.com"]}
    with pytest.raises(ConfigError, match=r"job 'call', task 'do': headers\.Authorization: secret API may be sent to"):
        Itinerary(store=store, secret_hosts=elsewhere).job("call", NEVER).http("do", url, headers=headers)
    report = ran(Itinerary(store=store, allow_hosts=allowed, secret_hosts=elsewhere), "call")
    assert report.outcome is OccurrenceState.FAILED
    assert "secret API may be sent to api.example.com" in str(report.tasks[0].attempts[0].error)
    bound = Itinerary(store=store, allow_hosts=allowed, secret_hosts={"API": allowed})
    assert ran(bound, "call").outcome is OccurrenceState.COMPLETED
    assert came == ["canary", "canary"]
