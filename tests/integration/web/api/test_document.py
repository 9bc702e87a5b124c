"""The API is what its document says: schemathesis asks everything that the document allows, and much that it does not.

`make api` asks for longer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig

from itinerary import Itinerary, cron
from itinerary.web.api.routes import api_document
from tests.integration.web.api.served import Served

EXAMPLES = int(os.environ.get("API_EXAMPLES", "4"))
STREAMS = "/(follow|api/v1/events)$"
"""Answers that go on: they have tests of their own."""


def work(ctx: Any) -> dict[str, int]:
    """A task."""
    return {"rows": 3}


class Application:
    """As schemathesis calls it: on its own loop, for requests that are answered on another."""

    served: Served | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http", scope
        assert self.served is not None, "it is asked while it runs"
        content = b""
        while True:
            message = await receive()
            content += message.get("body", b"")
            if not message.get("more_body"):
                break
        found = await asyncio.wrap_future(self.served.submit(self.served.exchange(_local(scope), content)))
        headers = [(name.encode(), value.encode("latin-1")) for name, value in found.headers.items()]
        await send({"type": "http.response.start", "status": found.status, "headers": headers})
        await send({"type": "http.response.body", "body": found.body})


def _local(scope: Any) -> dict[str, Any]:
    """The same, as if it came from this machine to where the server is."""
    headers = [(name, value) for name, value in scope["headers"] if name not in (b"host", b"user-agent", b"cookie")]
    return {**scope, "headers": [*headers, (b"host", b"127.0.0.1:8321")], "client": ("127.0.0.1", 50_000), "state": {}}


@pytest.fixture(scope="module", autouse=True)
def _running() -> Iterator[None]:
    app = Itinerary(store="memory:", web="127.0.0.1:0")
    for name in ("0", "etl"):
        app.job(name, cron("0 5 1 1 *")).task(work)
    with Served(app) as served:
        for name in ("0", "etl"):
            number = served.post(f"/api/v1/jobs/{name}/trigger")["number"]
            served.run(_ended(served, number))
        served.post("/api/v1/records/0/events", {"kind": "RecordCreated", "record": "0", "partition": "all"})
        APPLICATION.served = served
        yield


async def _ended(served: Served, number: int) -> None:
    await served.node.wait(str(number))


CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {
            # What is well-formed may still mean nothing: a time zone that there is not, a version that never was.
            "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "403", "404", "409", "422", "503"]},
        }
    }
)
APPLICATION = Application()
SCHEMA = schemathesis.openapi.from_dict(api_document(), config=CONFIG).exclude(path_regex=STREAMS)
SCHEMA.app = APPLICATION


@pytest.mark.spec("U10", "document")
@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="API_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_everything_that_the_document_allows_is_answered_as_it_says(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate()
