"""HTTP calls: where they may go, what is sent, and what is kept."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from itinerary.errors import ConfigError
from itinerary.executors import http
from itinerary.executors.address_policy import checked_addresses, refusal
from itinerary.executors.http import HttpExecutor
from itinerary.executors.output import OUTPUT_MAX
from itinerary.model.attempts import Failed, Outcome, Succeeded
from tests.contracts.executors.stage import Stage

SECRET = "correct-horse-battery-staple"  # noqa: S105 - a canary


class Site:
    """A server on loopback, known by names that only the test's own look-up can resolve."""

    def __init__(self, stage: Stage, port: int) -> None:
        self.stage = stage
        self.port = port
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[bytes] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        match request.path:
            case "/moved":
                return web.Response(status=302, headers={"Location": "/target"})
            case "/echo":
                return web.Response(text=f"you sent {request.headers.get('Authorization')}")
            case "/cookie":
                return web.Response(headers={"Set-Cookie": "a=b"})
            case "/endless":
                response = web.StreamResponse()
                await response.prepare(request)
                for number in range(1_000_000):
                    await response.write(b"%07d\n" % number * 8_192)
                raise AssertionError("somebody reads all of it")
            case _:
                return web.Response(text="ok")

    async def call(self, path: str, host: str = "allowed.test", **more: Any) -> Outcome:
        return await self.stage.outcome(self.stage.begin({"http": f"http://{host}:{self.port}{path}", **more}))


async def names(host: str, port: int) -> list[str]:
    """A look-up in which hosts have the addresses that they are called."""
    if host == "allowed.test":
        return ["127.0.0.1"]
    if host == "unknown.test":
        raise OSError("Name or service not known")
    return host.removesuffix(".test").replace("-", ".").split("_")


def told(test: Callable[[Site], Awaitable[None]]) -> Callable[[Path], None]:
    def on_site(tmp_path: Path) -> None:
        async def story() -> None:
            secrets = {"TOKEN": SECRET, "BROKEN": "a\r\nInjected: yes"}
            executor = HttpExecutor(allowed_hosts=["Allowed.test"], secrets=secrets.__getitem__, lookup=names)
            async with Stage(executor, tmp_path) as stage:
                site = Site(stage, 0)
                server = web.Server(site.answer, handler_cancellation=True)
                listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
                site.port = listener.sockets[0].getsockname()[1]
                try:
                    await test(site)
                finally:
                    listener.close()
                    await server.shutdown(1.0)

        asyncio.run(story())

    functools.update_wrapper(on_site, test)
    del on_site.__dict__["__wrapped__"]
    on_site.__annotations__ = {"tmp_path": Path, "return": None}
    return on_site


# -- where calls may go ------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q5", "addresses")
@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),  # noqa: S104 - nothing is bound
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "shared"),
        ("192.0.0.8", "private|reserved"),
        ("198.18.0.1", "private|reserved"),
        ("203.0.113.5", "private"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("240.0.0.1", "private|reserved"),
        ("255.255.255.255", "private|reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("fec0::1", "private|reserved"),
        ("ff02::1", "multicast"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:7f00:1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1", "private|reserved"),
        ("2002:7f00:1::", "private|reserved"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "private|reserved"),
        ("2001:db8::1", "private|reserved"),
        ("::127.0.0.1", "private|reserved|not public"),
        ("100::1", "private|reserved"),
        ("not an address", "no address"),
        ("", "no address"),
    ],
)
def test_addresses_that_only_the_node_can_reach_are_refused(address: str, kind: str) -> None:
    why = refusal(address)
    assert why is not None
    assert any(why.startswith(one) for one in kind.split("|")), why


@pytest.mark.spec("Q5", "addresses")
@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are_not(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.spec("Q5", "addresses")
@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "017700000001", "localhost", "0"])
def test_loopback_is_recognised_however_it_is_written(host: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with Stage(HttpExecutor(), tmp_path) as stage:
            outcome = await stage.outcome(stage.begin({"http": f"http://{host}:1/"}))
        assert isinstance(outcome, Failed)
        assert "is refused: it leads to" in outcome.error
        assert f"allow the host '{host}'" in outcome.error

    asyncio.run(story())


@pytest.mark.spec("Q5", "addresses")
@pytest.mark.parametrize("host", ["[::1]", "[::ffff:127.0.0.1]", "[fe80::1]"])
def test_literal_addresses_of_the_sixth_kind_too(host: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with Stage(HttpExecutor(), tmp_path) as stage:
            outcome = await stage.outcome(stage.begin({"http": f"http://{host}:1/"}))
        assert isinstance(outcome, Failed)
        assert "is refused" in outcome.error

    asyncio.run(story())


@pytest.mark.spec("Q5", "addresses")
@told
async def test_one_bad_address_among_good_ones_is_enough(site: Site) -> None:
    outcome = await site.call("/", host="1-1-1-1_127-0-0-1.test")
    assert isinstance(outcome, Failed)
    assert "leads to 127.0.0.1, which is loopback" in outcome.error
    assert site.requests == []


@pytest.mark.spec("Q5", "by name")
@told
async def test_a_host_that_is_allowed_by_name_is_reached_and_another_name_of_it_is_not(site: Site) -> None:
    assert isinstance(await site.call("/"), Succeeded)
    assert isinstance(await site.call("/", host="ALLOWED.test"), Succeeded)
    assert isinstance(await site.call("/", host="127-0-0-1.test"), Failed)


@pytest.mark.spec("Q5", "by name")
def test_a_host_may_be_allowed_for_one_port_only() -> None:
    async def lookup(host: str, port: int) -> Collection[str]:
        return ["10.0.0.1"]

    async def story() -> None:
        for host, allowed in [("db", "db:80"), ("::1", "[::1]:80")]:
            assert await checked_addresses(host, 80, {allowed}, lookup) == ["10.0.0.1"]
            with pytest.raises(Exception, match="is refused"):
                await checked_addresses(host, 81, {allowed}, lookup)

    asyncio.run(story())


def test_an_allow_list_is_a_list() -> None:
    with pytest.raises(ConfigError, match="give a list of names"):
        HttpExecutor(allowed_hosts="localhost")


@pytest.mark.spec("Q5", "pinned")
def test_a_host_is_resolved_once_and_the_connection_goes_to_what_was_checked(tmp_path: Path) -> None:
    """A name that leads elsewhere the second time it is asked about: the second time never comes."""

    async def story() -> None:
        asked: list[str] = []
        served: list[str] = []

        async def rebinding(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

        async def answer(request: web.BaseRequest) -> web.Response:
            served.append(request.headers["Host"])
            return web.Response()

        server = web.Server(answer)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        executor = HttpExecutor(allowed_hosts=["rebinding.test"], lookup=rebinding)
        async with Stage(executor, tmp_path) as stage:
            outcome = await stage.outcome(stage.begin({"http": f"http://rebinding.test:{port}/"}))
        listener.close()
        await server.shutdown(1.0)
        assert isinstance(outcome, Succeeded), outcome
        assert asked == ["rebinding.test"]
        assert served == [f"rebinding.test:{port}"]

    asyncio.run(story())


@pytest.mark.spec("Q5", "redirects")
@told
async def test_a_redirect_is_not_followed(site: Site) -> None:
    outcome = await site.call("/moved?token=x")
    assert isinstance(outcome, Failed)
    assert outcome.error.endswith("/moved answered 302 Found, expected was 200 to 299; redirects are not followed")
    assert [request.path for request in site.requests] == ["/moved"]


@pytest.mark.spec("Q5", "redirects")
@told
async def test_a_redirect_may_be_what_is_expected(site: Site) -> None:
    outcome = await site.call("/moved", expect=[300, 399])
    assert outcome == Succeeded('{"status":302}')
    assert len(site.requests) == 1


# -- what is sent and kept ---------------------------------------------------------------------------------------------


@pytest.mark.spec("X10", "http")
@told
async def test_a_call_sends_what_its_definition_says_and_no_more(site: Site) -> None:
    outcome = await site.call("/x?y=1", method="PUT", headers={"X-Run": "7"}, body={"a": 1})
    assert outcome == Succeeded('{"status":200}', "ok")
    (request,) = site.requests
    assert (request.method, request.path_qs, site.bodies) == ("PUT", "/x?y=1", [b'{"a":1}'])
    assert request.headers["X-Run"] == "7"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Host"] == f"allowed.test:{site.port}"


@pytest.mark.spec("X10", "http")
@told
async def test_calls_have_no_cookies_and_no_proxy(site: Site) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", "http://127.0.0.1:1")
        for _ in range(2):
            assert isinstance(await site.call("/cookie"), Succeeded)
    assert "Cookie" not in site.requests[1].headers


@pytest.mark.spec("Q7", "secrets")
@told
async def test_a_secret_is_sent_and_never_shown(site: Site) -> None:
    with capture_logs() as logs:
        outcome = await site.call("/echo", headers={"Authorization": {"secret": "TOKEN"}})
    assert site.requests[0].headers["Authorization"] == SECRET
    assert outcome == Succeeded('{"status":200}', "you sent [secret TOKEN]")
    assert SECRET not in str(logs)


@pytest.mark.spec("Q7", "secrets")
@pytest.mark.parametrize(("name", "why"), [("MISSING", "secret MISSING: cannot be resolved"), ("BROKEN", "line break")])
def test_a_secret_that_cannot_be_sent_fails_the_call_without_a_word_of_it(name: str, why: str, tmp_path: Path) -> None:
    @told
    async def story(site: Site) -> None:
        outcome = await site.call("/", headers={"Authorization": {"secret": name}})
        assert isinstance(outcome, Failed)
        assert why in outcome.error
        assert "Injected" not in outcome.error
        assert site.requests == []

    story(tmp_path)


@pytest.mark.spec("Q4", "output")
@told
async def test_of_an_endless_answer_the_beginning_is_kept_and_the_rest_never_read(site: Site) -> None:
    outcome = await site.call("/endless")
    assert isinstance(outcome, Succeeded)
    assert outcome.output is not None
    assert len(outcome.output.encode()) <= OUTPUT_MAX
    assert outcome.output.startswith("0000000\n")
    assert outcome.output.endswith(f"what follows the first {OUTPUT_MAX} bytes is not kept …")


@told
async def test_a_host_that_nobody_knows_is_a_failure(site: Site) -> None:
    outcome = await site.call("/secret?token=x", host="unknown.test")
    assert isinstance(outcome, Failed)
    assert outcome.error == f"GET http://unknown.test:{site.port}/secret: Name or service not known"
    assert "OSError" in outcome.names


@pytest.mark.spec("R9", "not everything ended")
def test_a_call_that_ignores_its_cancellation_does_not_hold_up_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_CLOSING_TIMEOUT", 0.1)

    async def story() -> None:
        may_end, has_begun = asyncio.Event(), asyncio.Event()

        async def deaf(host: str, port: int) -> list[str]:
            has_begun.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            return []

        executor = HttpExecutor(allowed_hosts=["deaf.test"], lookup=deaf)
        with capture_logs() as lines:
            try:
                async with asyncio.timeout(60), Stage(executor, tmp_path) as stage:
                    stage.begin({"http": "http://deaf.test/"})
                    await has_begun.wait()
                    await executor.close()
            finally:
                may_end.set()  # else the loop of a test that fails would wait for it
        assert [line for line in lines if line["event"] == "http.calls_left_behind"]

    asyncio.run(story())
