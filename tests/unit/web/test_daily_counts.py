"""A year of a job, counted from its history a little at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from itinerary.errors import StoreUnavailable
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind, Window
from itinerary.model.queries import Answer, HistoryQuery, Page, Query, StoreStatusQuery
from itinerary.model.rows import EntryKind, JobNumber, Key
from itinerary.model.states import OccurrenceState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import ClaimRequest
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import DAY
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.web.daily_counts import DailyCounts, YearCounts

NEWEST = 20
MISSED, SKIPPED = OccurrenceState.MISSED, OccurrenceState.SKIPPED


class Reader:
    """A store that counts how often it is asked, and may be away."""

    def __init__(self, store: EngineStore) -> None:
        self.store, self.asked, self.is_away = store, 0, False

    async def read(self, query: Query[Answer]) -> Answer:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("the store is away")
        return await self.store.read(query)


class World:
    """A store with one job, and a clock that goes on by a tick each time it is looked at."""

    def __init__(self, store: EngineStore, job: JobNumber, revision: int, now: int) -> None:
        self.store, self.job, self.revision, self.today = store, job, revision, now // SECOND // DAY
        self.reader = Reader(store)
        self.time, self.tick = 0.0, 0.02
        self.counting = DailyCounts(self._clock, self._sleep)
        self.slept = 0.0

    def _clock(self) -> float:
        self.time += self.tick
        return self.time

    async def _sleep(self, seconds: float) -> None:
        self.slept += seconds
        await asyncio.sleep(0)

    async def whole(self, zone: str = "UTC") -> YearCounts:
        """The year, when all of it is counted."""
        while not (year := await self.year(zone)).is_whole:  # noqa: ASYNC110 - each look is one step
            await asyncio.sleep(0)
        return year

    async def end(self, *instants: int, state: OccurrenceState = SKIPPED, window: Window | None = None) -> None:
        """Occurrences that are final from the beginning."""
        keys = [Key(instant, self.job, Kind.SCHEDULED) for instant in instants]
        await self.store.claim(
            None, self.revision, [ClaimRequest(key, 1, key.instant, state, window=window) for key in keys]
        )

    async def newest(self) -> Page:
        return await self.store.read(HistoryQuery(self.job, limit=NEWEST))

    async def year(self, zone: str = "UTC") -> YearCounts:
        snapshot = await StoreSnapshot.of(self.store)
        snapshot = StoreSnapshot(self.reader, snapshot.timeline, snapshot.status)  # type: ignore[arg-type]  # it is read only
        return await self.counting.year(snapshot, self.job, zone, await self.newest())

    def at(self, ago: int, second: int = 0) -> int:
        """An instant so many days ago."""
        return ((self.today - ago) * DAY + second) * SECOND


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def program() -> None:
        async with EngineStore(MemoryEngine()) as store:
            body = to_json(Definition(schedule=every("1h").to_json())).decode()
            entry = TimelineEntryRequest(
                job="a", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body=body
            )
            (entered,) = await store.amend([entry])
            assert isinstance(entered, EntryAccepted)
            await story(World(store, entered.job, entered.revision, (await store.read(StoreStatusQuery())).now))

    asyncio.run(program())


def test_a_long_history_is_counted_in_steps_until_all_of_it_is_there() -> None:
    async def story(world: World) -> None:
        await world.end(*[world.at(ago, second) for ago in range(300, 0, -1) for second in range(10)])
        first = sum(day.states.total() for day in (await world.year()).days.values())
        assert first < 3_000
        year = await world.whole()
        assert sum(day.states.total() for day in year.days.values()) == 3_000
        assert {day.states[SKIPPED] for day in year.days.values()} == {10}
        asked = world.reader.asked
        await world.year()
        assert world.reader.asked == asked, "what was counted is not read again"

    told(story)


def test_what_ends_later_is_added_even_if_more_did_than_are_on_a_page() -> None:
    async def story(world: World) -> None:
        await world.end(*[world.at(2, second) for second in range(30)])
        assert (await world.whole()).days[world.today - 2].states.total() == 30
        await world.end(*[world.at(1, second) for second in range(3 * NEWEST)], state=MISSED)
        year = await world.whole()
        assert (year.days[world.today - 1].states[MISSED], year.days[world.today - 2].states[SKIPPED]) == (60, 30)
        assert year.days[world.today - 1].place == 89

    told(story)


def test_nothing_is_counted_twice_and_nothing_is_left_out_when_the_store_was_away_meanwhile() -> None:
    async def story(world: World) -> None:
        await world.end(*[world.at(3, second) for second in range(200)])
        world.reader.is_away = True
        with pytest.raises(StoreUnavailable):
            await world.year()
        await world.year()  # begins in the background, which finds it away as well
        await asyncio.sleep(0)
        world.reader.is_away = False
        assert (await world.whole()).days[world.today - 3].states.total() == 200

    told(story)


def test_it_counts_for_a_share_of_the_time_only_and_ends_when_nobody_looks() -> None:
    async def story(world: World) -> None:
        await world.end(*[world.at(5, second) for second in range(4_000)])
        await world.year()
        asked = world.reader.asked
        await asyncio.sleep(0)
        assert world.reader.asked == asked + 1
        assert world.slept > 6.9 * world.tick, "at most an eighth of the time"
        world.time += 1_000
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.reader.asked <= asked + 2, "nobody looks"
        assert (await world.whole()).days[world.today - 5].states.total() == 4_000

    told(story)


def test_a_day_is_one_of_the_jobs_zone() -> None:
    async def story(world: World) -> None:
        await world.end(world.at(2, DAY - 3_600))
        assert list((await world.year()).days) == [world.today - 2]
        # A zone that the store has no table of is read as UTC; the year is counted anew for another zone.
        assert list((await world.year("Europe/Berlin")).days) == [world.today - 2]

    told(story)


def test_a_stretch_of_many_instants_covers_its_days_and_what_is_older_than_a_year_is_forgotten() -> None:
    async def story(world: World) -> None:
        await world.end(world.at(500))
        await world.end(world.at(9), state=MISSED, window=Window(world.at(9), world.at(6), 4_320))
        year = await world.year()
        assert not year.days
        (covered,) = year.covered
        assert (world.today - covered.first, world.today - covered.last) == (9, 7)
        assert (covered.state, covered.count) == (MISSED, 4_320)

    told(story)
