"""Alerts of a real node reach a real server: signed, without secrets, and only where the operator allows it (Q5)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner

from itinerary import Itinerary, every
from itinerary.cli.main import app as command_line
from itinerary.config.log_setup import configure_logging
from itinerary.errors import ConfigError
from itinerary.executors.secrets import Secret
from itinerary.observe.webhooks import DeliveryFailed, Webhook, receiver_of
from tests.integration.observe.test_listener import ask

CANARY = "canary-4711-of-the-task"
SIGNING = "canary-4712-of-the-signature"
PATH = "/hook/canary-4713-of-the-url"


class Post:
    """What a server was sent."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path, self.headers, self.body = path, headers, body


class Server:
    """A webhook's receiver."""

    def __init__(self, answers: int = 204) -> None:
        self.posts: list[Post] = []
        posts = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                posts.append(Post(self.path, {key.lower(): value for key, value in self.headers.items()}, body))
                self.send_response(answers)
                if answers == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.at = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.at}{PATH}"


@contextmanager
def serving(answers: int = 204) -> Iterator[Server]:
    found = Server(answers)
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        thread.join()
        found.server.server_close()


def until(found: Server, kind: str, within: float = 60.0) -> dict[str, Any]:
    last = time.monotonic() + within
    while time.monotonic() < last:
        for post in found.posts:
            told: dict[str, Any] = json.loads(post.body)
            if told["kind"] == kind:
                return told
        time.sleep(0.05)
    pytest.fail(f"nobody was told of {kind}: {[post.body for post in found.posts]}")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ITINERARY_SECRET_TASK", CANARY)
    monkeypatch.setenv("ITINERARY_SECRET_SIGNING", SIGNING)
    yield
    structlog.reset_defaults()


@pytest.mark.spec("U12", "the last lines of output")
@pytest.mark.usefixtures("secrets")
def test_an_alert_has_the_last_lines_of_what_the_task_wrote_without_its_secrets(tmp_path: Path) -> None:
    script = f"seq 1 100; echo connecting with {CANARY}; echo giving up >&2; exit 3"
    with serving() as server:
        app = Itinerary(store=f"sqlite:///{tmp_path}/store", allow_hosts=[server.at], alert_urls=[server.url])
        app.job("etl", every("1s")).shell("main", ["bash", "-c", script])
        with app.running():
            failed = until(server, "failed")
    lines = failed["output"].splitlines()
    assert len(lines) == 20
    assert {"100", "connecting with …hidden…", "giving up"} <= set(lines)
    assert "82" not in lines


@pytest.mark.spec("U12", "whether alerts arrive")
@pytest.mark.parametrize("way", ["it listens", "nothing listens", "not allowed", "no secret"])
def test_a_receiver_is_checked_without_sending_it_anything(way: str) -> None:
    async def checked(server: Server) -> str:
        allowed = [] if way == "not allowed" else [server.at]
        receiver = receiver_of(Secret("NOT_THERE") if way == "no secret" else server.url)
        return await Webhook(allowed_hosts=allowed).check(receiver)

    with serving() as server, socket.socket() as silent:
        if way == "nothing listens":
            silent.bind(("127.0.0.1", 0))  # and does not listen: no other process can get this port
            server.at = f"127.0.0.1:{silent.getsockname()[1]}"
            server.url = f"http://{server.at}{PATH}"
        if way == "it listens":
            assert asyncio.run(checked(server)) == "127.0.0.1"
        else:
            why = {"nothing listens": "cannot be reached", "not allowed": "is refused", "no secret": "cannot be used"}
            with pytest.raises(DeliveryFailed, match=why[way]):
                asyncio.run(checked(server))
        assert server.posts == []


@pytest.mark.spec("U12", "whether alerts arrive")
@pytest.mark.parametrize("answers", [204, 500])
def test_a_test_alert_says_who_has_it_and_check_and_doctor_say_who_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(answers) as server:
        settings = f'alert_urls = ["{server.url}"]\nallow_hosts = ["{server.at}"]\n'
        (tmp_path / "itinerary.toml").write_text(settings, "utf-8")
        job = '[jobs.etl]\nschedule = "0 3 * * *"\ntasks = [{ name = "main", shell = ["true"] }]\n'
        (tmp_path / "jobs.toml").write_text(job, "utf-8")
        sent = CliRunner().invoke(command_line, ["alert", "--test"])
        checked = CliRunner().invoke(command_line, ["check", "jobs.toml"])
    assert "warning" not in checked.output
    (post,) = server.posts
    assert json.loads(post.body)["kind"] == "test"
    if answers == 204:
        assert (sent.exit_code, sent.output) == (0, "receiver 1 of alert_urls has the test alert\n")
    else:
        refused = "alerts do not reach receiver 1 of alert_urls: 127.0.0.1 answered 500\n"
        assert (sent.exit_code, sent.output) == (1, refused)
    checked = CliRunner().invoke(command_line, ["check", "jobs.toml"])
    assert checked.exit_code == 0, checked.output
    assert "alert_urls: alerts do not reach receiver 1 of alert_urls: 127.0.0.1 cannot be reached" in checked.output
    assert CliRunner().invoke(command_line, ["migrate"]).exit_code == 0
    found = CliRunner().invoke(command_line, ["doctor"])
    assert found.exit_code == 1
    assert "alerts: alerts do not reach receiver 1 of alert_urls: 127.0.0.1 cannot be reached" in found.output


@pytest.mark.spec("U12", "failure")
@pytest.mark.spec("U12", "recovery")
@pytest.mark.spec("U9", "secrets never appear")
@pytest.mark.spec("Q7", "secrets in alerts, metrics and the log")
@pytest.mark.usefixtures("secrets")
def test_a_failure_and_its_end_reach_the_receiver_signed_and_no_secret_is_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = threading.Event()
    fails.set()

    def work() -> None:
        if fails.is_set():
            raise ValueError(f"the token {CANARY} was refused")

    log = io.StringIO()
    configure_logging("json", level=10, stream=log)
    with serving() as server:
        monkeypatch.setenv("ITINERARY_SECRET_HOOK", server.url)
        app = Itinerary(
            store=f"sqlite:///{tmp_path}/store",
            health="127.0.0.1:0",
            allow_hosts=[server.at],
            alert_urls=[{"secret": "HOOK"}],
            alert_secret="SIGNING",  # noqa: S106 - a name
        )
        app.job("etl", every("1s")).task(work)
        with app.running() as node:
            failed = until(server, "failed")
            fails.clear()
            recovered = until(server, "recovered")
            metrics = ask(node, "/metrics")[1]
    assert (failed["job"], failed["outcome"]) == ("etl", "failed")
    assert "…hidden…" in failed["why"]
    assert recovered["incident"] == failed["alert"]
    post = server.posts[0]
    assert post.path == PATH
    assert post.headers["idempotency-key"] == failed["alert"]
    signed = hmac.new(SIGNING.encode(), post.headers["itinerary-timestamp"].encode() + b"." + post.body, hashlib.sha256)
    assert post.headers["itinerary-signature"] == f"sha256={signed.hexdigest()}"
    assert len([one for one in server.posts if json.loads(one.body)["kind"] == "failed"]) == 1
    assert re.search(r'scheduler_alerts_total\{outcome="delivered"\} [12]\.0', metrics)
    said = log.getvalue() + metrics + b"".join(one.body for one in server.posts).decode()
    assert "alert.delivered" in said
    assert not [canary for canary in (CANARY, SIGNING, PATH) if canary in said]


def post(url: str, *allowed: str) -> None:
    asyncio.run(Webhook(allowed_hosts=allowed).post(receiver_of(url), "failed:1", b"{}", 1))


@pytest.mark.spec("Q5", "webhooks")
def test_a_private_address_is_refused_unless_it_is_allowed_by_name_and_nothing_is_sent() -> None:
    with serving() as server:
        with pytest.raises(DeliveryFailed, match=r"it leads to 127.0.0.1, which is loopback.* allow the host"):
            post(server.url)
        assert not server.posts
        post(server.url, server.at)
        assert len(server.posts) == 1


@pytest.mark.spec("Q5", "webhooks")
def test_a_redirect_is_not_followed_and_is_no_delivery() -> None:
    with serving(302) as server:
        with pytest.raises(DeliveryFailed, match="answered 302; redirects are not followed"):
            post(server.url, server.at)
        assert len(server.posts) == 1


@pytest.mark.parametrize("status", [400, 404, 500])
def test_what_a_receiver_refuses_is_no_delivery(status: int) -> None:
    with serving(status) as server, pytest.raises(DeliveryFailed, match=f"answered {status}$"):
        post(server.url, server.at)


@pytest.mark.spec("Q7", "secrets in errors")
def test_a_url_that_cannot_be_used_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_SECRET_HOOK", "ftp://canary-4714/")
    with pytest.raises(DeliveryFailed) as caught:
        asyncio.run(Webhook().post(receiver_of(Secret("HOOK")), "failed:1", b"{}", 1))
    assert "canary" not in str(caught.value)
    with pytest.raises(DeliveryFailed):
        asyncio.run(Webhook().post(receiver_of(Secret("NOWHERE")), "failed:1", b"{}", 1))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (["ftp://host/"], "scheme 'ftp' is not allowed"),
        (["nothing"], "alert_urls: scheme"),
        ([{"secret": "no name"}], "is not a name"),
        ("https://host/", "is not a list of URLs"),
        (["https://user:word@host/"], "user name or password"),
    ],
)
def test_a_receiver_that_makes_no_sense_is_refused(wrong: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=f"alert_urls.*{why}" if "alert_urls" not in why else why):
        Itinerary(alert_urls=wrong)


def test_receivers_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_ALERT_URLS", "https://a.example/x, secret:HOOK")
    monkeypatch.setenv("ITINERARY_ALERT_SECRET", "SIGNING")
    configuration = Itinerary().configuration
    assert configuration.alert_urls == ("https://a.example/x", Secret("HOOK"))
    assert configuration.alert_secret == "SIGNING"  # noqa: S105 - a name
