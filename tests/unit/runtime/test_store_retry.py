"""Asking a store again until it answers, and what no asking mends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from itinerary.errors import SchemaError, StoreError, StoreFull, StoreUnavailable, UnwritableError
from itinerary.runtime.store_retry import StoreRetry
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import World, played


class Failing:
    """Fails so many times, then answers."""

    def __init__(self, world: World, *errors: Exception) -> None:
        self._world, self._errors = world, list(errors)
        self.asked_at: list[float] = []

    async def __call__(self) -> str:
        self.asked_at.append(round(self._world.loop.time(), 6))
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


@pytest.mark.spec("L7", "retried with backoff")
@pytest.mark.spec("N5")
def test_it_asks_again_after_longer_and_longer_waits_and_says_so_once_at_each_end() -> None:
    async def story(world: World) -> None:
        patience = StoreRetry("syncer", world.log)
        call = Failing(world, *([StoreUnavailable("away")] * 8))
        assert await patience.ask(call, "write") == "answer"
        waits = [round(b - a, 6) for a, b in zip(call.asked_at, call.asked_at[1:], strict=False)]
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
        assert patience.failures == 8
        (away,) = world.log.said("store.unavailable")
        assert (away["component"], away["what"], away["error"]) == ("syncer", "write", "away")
        (back,) = world.log.said("store.answers_again")
        assert back == {"component": "syncer", "what": "write"}

    played(story)


@pytest.mark.spec("N5")
def test_it_waits_no_longer_than_it_was_told() -> None:
    async def story(world: World) -> None:
        call = Failing(world, *([StoreUnavailable("away")] * 4))
        await StoreRetry("syncer", world.log, longest_wait=300_000).ask(call, "write")
        waits = [round(b - a, 6) for a, b in zip(call.asked_at, call.asked_at[1:], strict=False)]
        assert waits == [0.1, 0.2, 0.3, 0.3]

    played(story)


@pytest.mark.spec("N5")
def test_a_store_without_room_is_waited_for_and_what_no_waiting_mends_is_raised_at_once() -> None:
    async def story(world: World) -> None:
        patience = StoreRetry("syncer", world.log)
        assert await patience.ask(Failing(world, StoreFull("no room")), "write") == "answer"
        call = Failing(world, StoreError("broken"))
        with pytest.raises(StoreError, match="broken"):
            await patience.ask(call, "write")
        assert len(call.asked_at) == 1

    played(story)


@pytest.mark.spec("L7", "one bad update")
def test_of_a_batch_that_cannot_be_written_only_the_one_is_refused_that_is_to_blame() -> None:
    calls: list[Sequence[int]] = []

    async def write(some: Sequence[int]) -> list[str]:
        calls.append(some)
        if 13 in some:
            raise UnwritableError("unlucky")
        return [f"wrote {number}" for number in some]

    async def story(world: World) -> None:
        patience = StoreRetry("syncer", world.log)
        answers = await patience.ask_each(
            write, list(range(100)), "write", lambda number, error: f"refused {number}: {error}"
        )
        assert answers == [f"wrote {one}" if one != 13 else "refused 13: unlucky" for one in range(100)]
        assert len(calls) < 20, "halved, not one by one"

    played(story)


@pytest.mark.spec("D7")
def test_a_schema_that_has_moved_on_is_nobodys_fault_in_the_batch_and_ends_it() -> None:
    async def write(_: Sequence[int]) -> list[str]:
        raise SchemaError("newer than this program")

    async def story(world: World) -> None:
        with pytest.raises(SchemaError):
            await StoreRetry("syncer", world.log).ask_each(write, [1, 2], "write", lambda *_: "refused")

    played(story)


@pytest.mark.spec("N5", "silent")
def test_a_call_that_takes_longer_than_a_heartbeat_is_logged_while_it_waits_and_counts_as_a_failure() -> None:
    async def story(world: World) -> None:
        patience = StoreRetry("watcher", world.log, longest_wait=5 * SECOND)

        async def hang() -> str:
            await asyncio.sleep(4.9)
            assert not patience.is_waiting
            await asyncio.sleep(0.2)
            assert patience.is_waiting
            assert len(world.log.said("store.slow")) == 1
            await asyncio.sleep(60)
            return "answer"

        assert await patience.ask(hang, "heartbeat") == "answer"
        (slow,) = world.log.said("store.slow")
        assert (slow["component"], slow["what"], slow["seconds"]) == ("watcher", "heartbeat", 5.0)
        assert patience.failures == 1
        assert not patience.is_waiting
        assert len(world.log.said("store.answers_again")) == 1
        assert world.log.said("store.unavailable") == []

    played(story)


@pytest.mark.spec("N5", "silent")
def test_a_call_that_hangs_and_fails_says_both() -> None:
    async def story(world: World) -> None:
        patience = StoreRetry("syncer", world.log, longest_wait=5 * SECOND)
        errors = [StoreUnavailable("no answer")]

        async def hang() -> str:
            if errors:
                await asyncio.sleep(60)
                raise errors.pop()
            return "answer"

        assert await patience.ask(hang, "write") == "answer"
        assert len(world.log.said("store.slow")) == 1
        (away,) = world.log.said("store.unavailable")
        assert away["error"] == "no answer"
        assert patience.failures == 2

    played(story)
