"""A node with a history that has everything in it, looked at once: the tests read what its pages said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import structlog

from itinerary import ExecutionContext, Itinerary, Retry, cron, once
from itinerary.api import RunningNode
from itinerary.model.occurrence import Kind
from itinerary.model.queries import ByKeyQuery, StoreStatusQuery
from itinerary.model.rows import Key, Ref
from itinerary.model.states import OccurrenceState
from itinerary.model.writes import ClaimRequest
from itinerary.observe.listen_address import ListenAt
from itinerary.read.run_lookup import RunReference
from itinerary.schedules import Schedule
from itinerary.schedules.durations import SECOND
from itinerary.web.asgi import WebApplication
from tests.local_callers import all_allowed, own_user

__all__ = ["HOSTILE", "HOSTILE_TASK", "OUTPUT", "PATIENCE", "Scene", "played", "text_of"]

HOSTILE = '"><script>alert(1)</script>/../x'
HOSTILE_TASK = "<img src=x onerror=alert(2)>"
OUTPUT = 400_000
PATIENCE = 120.0
AT = ListenAt("127.0.0.1", 8498)
DAY = 86_400 * SECOND
NEVER = "2190-01-01T00:00:00Z"


class Scene:
    """The pages that were looked at, by a name, and the occurrences in them."""

    def __init__(self) -> None:
        self.pages: dict[str, httpx.Response] = {}
        self.runs: dict[str, RunReference] = {}
        self.numbers: dict[str, Ref] = {}


def text_of(page: httpx.Response, part: str | None = None) -> str:
    """What a page says, or one part of it, without its markup."""
    inside = page.text.partition("<main")[2] if part is None else part_of(page, part)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", inside)))


def part_of(page: httpx.Response, part: str) -> str:
    """The markup of one part."""
    found = page.text.partition(f'<section id="{part}" class="part"')[2]
    return re.split(r'<section id="\w+" class="part"|</main>', found)[0]


def weekdays(hour: int) -> Schedule:
    """A schedule that has no instant while a test runs, whenever that is."""
    start = datetime.now(UTC).date() + timedelta(days=30)
    return cron(f"0 {hour} * * 1-5", tz="America/New_York", start=f"{start}T00:00:00")


def _app(release: asyncio.Event) -> Itinerary:
    app = Itinerary(store="memory:", name="here", kill_grace="200ms")
    etl = app.job("etl", weekdays(5), priority=3)

    @etl.task
    def extract() -> dict[str, str]:
        return {"note": "</pre><script>alert(5)</script>"}

    etl.shell("load", ["sh", "-c", f"head -c {OUTPUT} /dev/zero | tr '\\0' '\"'; echo '<script>alert(4)</script>last'"])

    evil = app.job(HOSTILE, once(NEVER), retry=Retry(max_retries=1, retry_interval="10ms"))

    @evil.task(name=HOSTILE_TASK)
    async def fail(ctx: ExecutionContext) -> None:
        raise ValueError(f"<script>alert(3)</script> attempt {ctx.attempt}")

    @app.job(once(NEVER), overlap="skip")
    async def slow() -> None:
        await release.wait()

    @app.job(once(NEVER))
    def old() -> None: ...

    return app


def serving(node: RunningNode, app: Itinerary) -> WebApplication:
    """The application of a node, in which local callers may do everything."""
    return WebApplication(node, all_allowed(app.configuration), AT, structlog.get_logger(), owner_of=own_user)


@asynccontextmanager
async def _visited(app: Itinerary) -> AsyncIterator[tuple[RunningNode, httpx.AsyncClient]]:
    async with app.running() as node, serving(node, app) as application:
        asgi: Any = application  # two libraries that name the same protocol differently
        transport = httpx.ASGITransport(app=asgi, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{AT}") as client:
            client.headers["Accept"] = "text/html"
            yield node, client


def played() -> Scene:
    """Let it happen."""

    async def program() -> Scene:
        async with asyncio.timeout(PATIENCE):
            return await _played()

    return asyncio.run(program())


async def _played() -> Scene:
    scene, release = Scene(), asyncio.Event()
    app = _app(release)
    async with _visited(app) as (node, client):

        async def look(name: str, address: str) -> None:
            scene.pages[name] = await client.get(address)

        scene.numbers = await _history_of(node)
        await _ran(app, node, scene)
        first = scene.runs["first"] = await app["slow"].trigger()
        await _until(client, f"/runs/{first.ref}", "state-running")
        second = scene.runs["second"] = await app["slow"].trigger(overlap="skip")
        await node.wait(second)
        await look("running", f"/runs/{first.ref}")
        await look("slow while it runs", "/jobs/slow")
        await node.cancel(first, reason="<b>enough</b>")
        await node.wait(first)
        await look("cancelled", f"/runs/{first.ref}")
        await look("skipped", f"/runs/{second.ref}")
        await app["slow"].pause(reason="<b>moving</b>")
        await app.update("etl", schedule=weekdays(4), reason="earlier")
        await _until(client, "/jobs/etl", "version 2")  # what was read of the timeline serves for a moment
        await _until(client, "/jobs/old", "Still counting", is_there=False)
        for job in ("etl", "slow", "old"):
            await look(job, f"/jobs/{job}")
        for name in ("etl run", "etl replay", "evil run"):
            await look(name, f"/runs/{scene.runs[name].ref}")
        await look("evil", re.findall(r'href="(/jobs/[0-9a-f-]{36})"', scene.pages["evil run"].text)[0])
        await look("output", f"/runs/{scene.runs['etl run'].ref}/output/1/1")
        await look("no output", f"/runs/{scene.runs['etl run'].ref}/output/7/1")
        number = scene.numbers["first day"]
        await look("missed", f"/runs/{number}")
        instant = re.findall(r"old:(\d+)", text_of(scene.pages["missed"]))[0]
        await look("by run id", f"/runs/old:{instant}")
        await look("by id", f"/runs/{scene.runs['etl run'].id}")
        await look("history", "/jobs/old/history")
        await look("missed only", "/jobs/old/history?state=missed")
        await look("older", "/jobs/old/history?before=60")
        for place, address in enumerate(
            (
                "/jobs/nobody",
                "/jobs/..%2f..%2fetc",
                "/jobs/old/history?state=gone",
                "/jobs/old/history?before=1e9",
                "/jobs/old/history?before=-1",
                "/runs/99999999",
                "/runs/9" + "9" * 40,
                "/runs/nobody:1",
                "/runs/00000000-0000-0000-0000-000000000000",
                "/runs/1/output/0/x",
                "/runs/%3Cscript%3E",
            )
        ):
            await look(f"refused {place}", address)
    return scene


async def _ran(app: Itinerary, node: RunningNode, scene: Scene) -> None:
    """What runs, fails, and is run again."""
    scene.runs["etl run"] = await app["etl"].trigger(reason="<i>now</i>")
    scene.runs["evil run"] = await app[HOSTILE].trigger()
    await node.wait(scene.runs["etl run"])
    await node.wait(scene.runs["evil run"])
    scene.runs["etl replay"] = await node.replay(scene.runs["etl run"].id, reason="again", tasks=["extract"])
    await node.wait(scene.runs["etl replay"])


async def _until(client: httpx.AsyncClient, address: str, word: str, *, is_there: bool = True) -> None:
    while (word in (await client.get(address)).text) != is_there:  # noqa: ASYNC110 - it is another loop that it happens on
        await asyncio.sleep(0.02)


async def _history_of(node: RunningNode) -> dict[str, Ref]:
    """A year and more of one job: skipped each day, missed each tenth."""
    store, timeline = node.lent_store(), node.watched.timeline()
    assert timeline is not None
    job = next(row.number for row in timeline.jobs.values() if row.name == "old")
    now = (await store.read(StoreStatusQuery())).now
    last = now // DAY * DAY - DAY + 6 * 3_600 * SECOND
    wanted = [
        ClaimRequest(
            Key(last - ago * DAY, job, Kind.SCHEDULED),
            1,
            last - ago * DAY,
            OccurrenceState.SKIPPED if ago % 10 else OccurrenceState.MISSED,
        )
        for ago in range(420, -1, -1)
    ]
    await store.claim(None, timeline.revision, wanted)
    keys = {"first day": wanted[0].key, "last day": wanted[-1].key}
    rows = await store.read(ByKeyQuery(tuple(keys.values())))
    return {name: rows[key].ref for name, key in keys.items()}
