"""A secret goes to the hosts that the operator binds it to, and to no other (Q5, Q7)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from itinerary.errors import ConfigError
from itinerary.executors.http import HttpExecutor
from itinerary.executors.http_definition import read_http
from itinerary.executors.secret_hosts import SecretHosts, read_secret_hosts
from itinerary.model.attempts import Failed, Outcome
from tests.contracts.executors.stage import Stage

pytestmark = pytest.mark.spec("Q7", "hosts of secrets")

BOUND = SecretHosts({"API": frozenset({"api.example.com", "local.test:8080"}), "NONE": frozenset()})


def call(url: str, secret: str = "API") -> dict[str, Any]:  # noqa: S107 - the name of a secret
    """A task with a secret in a header."""
    return {"http": url, "headers": {"Authorization": {"secret": secret}}}


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://api.example.com/run", "API"),
        ("https://API.example.com./run", "API"),
        ("http://api.example.com:9000/run", "API"),
        ("http://local.test:8080/run", "API"),
        ("https://anywhere.example/run", "FREE"),
    ],
)
def test_a_secret_may_go_to_its_hosts_and_one_that_is_not_bound_anywhere(url: str, secret: str) -> None:
    BOUND.check(read_http(call(url, secret)))


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("https://evil.example/run", "API"),
        ("https://api.example.com.evil.example/run", "API"),
        ("https://evil.example/?api.example.com", "API"),
        ("https://evil.example#@api.example.com/", "API"),
        ("http://local.test:8081/run", "API"),
        ("https://sub.api.example.com/run", "API"),
        ("https://api.example.com/run", "NONE"),
    ],
)
def test_a_secret_goes_to_no_other_host(url: str, secret: str) -> None:
    with pytest.raises(ConfigError, match=rf"headers\.Authorization: secret {secret} may be sent to"):
        BOUND.check(read_http(call(url, secret)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("API=api.example.com", "secret_hosts: .* is not a table"),
        ({"A B": []}, "secret_hosts.A B.secret: 'A B' is not a name"),
        ({"API": "api.example.com"}, "secret_hosts.API: 'api.example.com' is not a list"),
        ({"API": [7]}, "secret_hosts.API: allowed hosts: give a list of names"),
    ],
)
def test_the_setting_is_a_table_of_secrets_and_hosts(given: object, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_secret_hosts(given)
    assert read_secret_hosts({"API": ["Api.Example.com"]}) == {"API": ("api.example.com",)}


def test_a_call_to_another_host_never_looks_the_secret_up_and_a_redirect_takes_it_nowhere(tmp_path: Path) -> None:
    seen: list[tuple[str, str | None]] = []
    looked_up: list[str] = []
    port = 0

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append((request.host.partition(":")[0], request.headers.get("Authorization")))
        return web.Response(status=307, headers={"Location": f"http://evil.test:{port}/steal"})

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    def secret(name: str) -> str:
        looked_up.append(name)
        return "canary"

    async def story() -> tuple[Outcome, Outcome]:
        nonlocal port
        server = web.Server(answer)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        executor = HttpExecutor(
            allowed_hosts=["api.test", "evil.test"],
            secrets=secret,
            secret_hosts=SecretHosts({"API": frozenset({"api.test"})}),
            lookup=here,
        )
        async with Stage(executor, tmp_path) as stage:
            refused = await stage.outcome(stage.begin(call(f"http://evil.test:{port}/")))
            assert (seen, looked_up) == ([], [])
            redirected = await stage.outcome(stage.begin(call(f"http://api.test:{port}/")))
        listener.close()
        await server.shutdown(1.0)
        return refused, redirected

    refused, redirected = asyncio.run(story())
    assert isinstance(refused, Failed)
    assert "secret API may be sent to api.test, and not to evil.test" in refused.error
    assert isinstance(redirected, Failed)
    assert "redirects are not followed" in redirected.error
    assert seen == [("api.test", "canary")]
