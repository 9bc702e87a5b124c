"""What commands print, captured: on a store whose clock the test moves, at whatever width the test says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import newer_entries
from itinerary.model.overrides import Overrides
from itinerary.model.rows import EntryKind
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules import cron, every, once, packaged_zone_data
from tests.unit.runtime.world import World

__all__ = ["Terminal", "changed", "ground_of", "lived", "terminal"]


class Terminal:
    """Standard output of a given width, without a terminal behind it; None: a pipe."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        monkeypatch.setenv("TZ", "UTC")
        monkeypatch.delenv("COLUMNS", raising=False)
        time.tzset()

    def wide(self, columns: int | None) -> None:
        if columns is None:
            self._monkeypatch.delenv("COLUMNS", raising=False)
        else:
            self._monkeypatch.setenv("COLUMNS", str(columns))

    @property
    def text(self) -> str:
        """What was printed since the last look."""
        return self._capsys.readouterr().out


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    with pytest.MonkeyPatch.context() as zone:
        yield Terminal(capsys, zone)
    time.tzset()


_FLAKY = """
async def flaky(ctx):
    await sleep(0.2 * (ctx.scheduled_at.minute + 1))
    if ctx.scheduled_at.minute % 3 == 2:
        raise ValueError("the API answered 503\\nand \\x1b[31mred\\x1b[0m")
"""
"""A task of a file whose name is the same on every machine."""


async def changed(world: World, job: str, kind: EntryKind, **fields: Any) -> None:
    """Somebody changes how a job stands."""
    entry = TimelineEntryRequest(job=job, kind=kind, request=f"{job} {kind} {world.now()}", by="anna", **fields)
    (entered,) = await world.store.amend([entry])
    assert isinstance(entered, EntryAccepted)


async def ground_of(world: World) -> StoreSnapshot:
    return await StoreSnapshot.of(world.store)


async def lived(world: World, look: Callable[[], Awaitable[None]]) -> None:
    """Five jobs on a node, for ten minutes: one that fails now and then, one that overlaps, one that is paused. Then
    somebody looks."""

    zones = newer_entries(Timeline().zones, packaged_zone_data(), ["America/New_York"], by="test", revision=None)
    await world.store.amend(zones)
    module: dict[str, Any] = {"sleep": asyncio.sleep}
    exec(compile(_FLAKY, "app.py", "exec"), module)  # noqa: S102 - written above
    await world.register("flaky", module["flaky"])
    await world.register("slow", world.task(90.0), overrides=Overrides(priority=3))
    await world.register("nightly_report", world.task(), schedule=cron("0 5 * * 1-5", tz="America/New_York"))
    await world.register("etl", world.task(), schedule=every("15m"))
    await world.register("fireworks", world.task(), schedule=once("2026-03-28T12:00:10Z"))
    await changed(world, "etl", EntryKind.PAUSE, reason="migration")
    async with world.running(world.node("berlin-1")):
        await world.sleep_until(600.5)
        await look()
