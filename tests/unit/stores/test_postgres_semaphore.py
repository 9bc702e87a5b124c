"""A bounded number of places, for callers on any event loop."""

from __future__ import annotations

import asyncio
import threading

from itinerary.stores.postgres.semaphore import Semaphore


def test_those_in_line_come_one_after_the_other() -> None:
    async def main() -> None:
        places = Semaphore(1)
        came: list[int] = []

        async def come(number: int) -> None:
            await places.take()
            came.append(number)

        await come(0)
        line = [asyncio.create_task(come(number)) for number in (1, 2)]
        await asyncio.sleep(0)
        assert came == [0]
        for task in line:
            places.give_back()
            await task
        assert came == [0, 1, 2]

    asyncio.run(main())


def test_who_leaves_the_line_takes_no_place_along() -> None:
    async def main() -> None:
        places = Semaphore(1)
        await places.take()
        leaving, staying = asyncio.create_task(places.take()), asyncio.create_task(places.take())
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        places.give_back()
        await staying
        places.give_back()
        await places.take()

    asyncio.run(main())


def test_who_is_called_and_leaves_at_the_same_moment_passes_the_place_on() -> None:
    async def main() -> None:
        places = Semaphore(1)
        await places.take()
        leaving, staying = asyncio.create_task(places.take()), asyncio.create_task(places.take())
        await asyncio.sleep(0)
        places.give_back()
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        await staying

    asyncio.run(main())


def test_a_place_that_is_given_back_on_one_loop_is_had_on_another() -> None:
    places = Semaphore(1)
    asyncio.run(places.take())
    other = threading.Thread(target=lambda: asyncio.run(places.take()))
    other.start()
    places.give_back()
    other.join(60)
    assert not other.is_alive()
