"""Pages that are looked at: drawn once for all who do, sent when they change, and kept when the store is away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.errors import StoreError
from itinerary.model.scopes import Scope
from itinerary.read.snapshot import StoreSnapshot
from itinerary.web import live
from itinerary.web import server_state as houses
from itinerary.web.access.callers import Caller, CallerSource
from itinerary.web.live import LivePages, RenderedPage, TooMany, hash_of
from itinerary.web.server_state import ServerState


def work() -> None:
    """Nothing."""


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_EVERY", 0.01)
    monkeypatch.setattr(live, "_SHARE", 0)
    monkeypatch.setattr(houses, "_FRESH_FOR", -1.0)


@contextmanager
def server(tmp_path: Path, store: str = "memory:") -> Iterator[ServerState]:
    """A house beside a node that runs; in the block's end the node ends first."""
    app = Itinerary(store=store.format(tmp_path))
    app.job("tick", every("1h")).task(work)
    with app.running() as node:
        yield ServerState(node, app.configuration)


class Scene:
    """A page with two parts, one of which a test changes."""

    def __init__(self) -> None:
        self.word, self.times = "first", 0

    async def draw(self, snapshot: StoreSnapshot) -> RenderedPage:
        self.times += 1
        names = [row.name for row in snapshot.named()]
        return RenderedPage(title="A page", parts={"jobs": ", ".join(names), "word": f"<p>{self.word}</p>"})


async def event(messages: AsyncIterator[bytes]) -> tuple[str, object]:
    """The next event that is no comment."""
    async with asyncio.timeout(30):
        async for message in messages:
            if not message.startswith(b":"):
                name, data = message.decode().strip().split("\n")[:2]
                return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
    raise AssertionError("it ended")


@pytest.mark.spec("U10", "live")
def test_who_follows_a_page_is_sent_the_parts_that_changed_and_no_others(tmp_path: Path) -> None:
    async def follow(hub: LivePages, scene: Scene) -> None:
        page = await hub.page("a", scene.draw)
        assert page.parts == {"jobs": "tick", "word": "<p>first</p>"}
        seen = {name: hash_of(html) for name, html in page.parts.items()}
        messages = hub.follow("a", scene.draw, seen)
        assert (await anext(messages)).startswith(b":")
        scene.word = "second"
        assert await event(messages) == ("parts", {"word": "<p>second</p>"})
        await messages.aclose()

    with server(tmp_path) as found:
        asyncio.run(follow(LivePages(found), Scene()))


@pytest.mark.spec("U10", "live")
def test_a_page_that_many_follow_is_drawn_once_for_all_of_them(tmp_path: Path) -> None:
    async def follow(hub: LivePages, scene: Scene) -> None:
        all_messages = [hub.follow("a", scene.draw, {}) for _ in range(50)]
        for messages in all_messages:
            await anext(messages)
        told = await asyncio.gather(*(event(messages) for messages in all_messages))
        assert all(item == told[0] for item in told)
        assert scene.times < len(all_messages)
        for messages in all_messages:
            await messages.aclose()
        drawn = scene.times
        await asyncio.sleep(0.1)
        assert scene.times <= drawn + 1, "nobody looks any more"

    with server(tmp_path) as found:
        asyncio.run(follow(LivePages(found), Scene()))


@pytest.mark.spec("U10", "the store is away")
def test_a_page_stays_as_it_was_while_the_store_is_away_and_its_readers_are_told_since_when(tmp_path: Path) -> None:
    scene = Scene()

    async def before(hub: LivePages) -> None:
        await hub.page("a", scene.draw)

    async def after(hub: LivePages) -> None:
        assert (await hub.page("a", scene.draw)).parts["word"] == "<p>first</p>"
        with pytest.raises(StoreError):
            await hub.page("never seen", scene.draw)
        assert hub.server.trouble is not None
        since = hub.server.trouble.since
        messages = hub.follow("a", scene.draw, {})
        await anext(messages)
        name, said = await event(messages)
        assert name == "trouble"
        assert isinstance(said, dict)
        assert said["since"] == since.isoformat().replace("+00:00", "Z")
        assert "the node does not run" in said["why"]
        await messages.aclose()

    with server(tmp_path) as found:
        hub = LivePages(found)
        asyncio.run(before(hub))
    asyncio.run(after(hub))


@pytest.mark.spec("Q4", "followers")
def test_one_follower_too_many_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FOLLOWERS_MAX", 1)

    async def follow(hub: LivePages, scene: Scene) -> None:
        first = hub.follow("a", scene.draw, {})
        await anext(first)
        with pytest.raises(TooMany, match="1 dashboards are open already"):
            await anext(hub.follow("b", scene.draw, {}))
        await first.aclose()
        again = hub.follow("b", scene.draw, {})
        await anext(again)
        await again.aclose()

    with server(tmp_path) as found:
        asyncio.run(follow(LivePages(found), Scene()))


@pytest.mark.spec("U10", "live")
def test_an_error_in_drawing_ends_the_stream_of_who_follows(tmp_path: Path) -> None:
    async def broken(snapshot: StoreSnapshot) -> RenderedPage:
        raise ZeroDivisionError(str(snapshot.now))

    async def follow(hub: LivePages) -> None:
        messages = hub.follow("a", broken, {})
        await anext(messages)
        with pytest.raises(ZeroDivisionError):
            await event(messages)

    with server(tmp_path) as found:
        asyncio.run(follow(LivePages(found)))


@pytest.mark.spec("U10", "a house of its own")
@pytest.mark.parametrize("store", ["memory:", "sqlite:///{}/jobs.db", "lmdb:///{}/jobs"])
def test_what_is_asked_through_a_house_is_done_and_seen_at_once(tmp_path: Path, store: str) -> None:
    async def ask(found: ServerState) -> None:
        operator = await found.operator(Caller("ada", Scope.OPERATE, CallerSource.BEARER))
        await operator.changes.pause("tick", "by hand", None)
        snapshot = await found.snapshot()
        segment = snapshot.segment(snapshot.job("tick").number)
        assert segment is not None
        assert "by ada" in str(segment.status)
        await found.close()

    with server(tmp_path, store) as found:
        asyncio.run(ask(found))
