"""Many coroutines in few tasks: nobody can tell that from a task for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest

from itinerary.executors.coroutine_batching import TURN_MAX, CoroutineBatch

SET: ContextVar[str] = ContextVar("SET", default="nothing")


class One:
    """Something to run: a coroutine function, and what came of it."""

    def __init__(self, does: Callable[[], Awaitable[object]]) -> None:
        self.does = does
        self.task: asyncio.Task[None] | None = None
        self.came: object = None
        self.over = asyncio.Event()


async def run(one: One) -> None:
    try:
        one.came = await one.does()
    except BaseException as error:  # noqa: BLE001 - what came of it is looked at
        one.came = error
    one.over.set()


async def relayed(*does: Callable[[], Awaitable[object]]) -> list[One]:
    """Run all of them to their end."""
    relay, ones = CoroutineBatch(asyncio.get_running_loop(), run), [One(each) for each in does]
    relay.add(ones)
    async with asyncio.timeout(30):
        for one in ones:
            await one.over.wait()
    return ones


async def own_task() -> object:
    return asyncio.current_task()


async def task_before_and_after() -> object:
    before = asyncio.current_task()
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return before, asyncio.current_task()


@pytest.mark.spec("X10", "coroutines that do not wait")
def test_those_that_do_not_wait_share_a_task_and_run_in_order() -> None:
    ran: list[int] = []

    def noted(number: int) -> Callable[[], Awaitable[object]]:
        async def note() -> object:
            ran.append(number)
            return asyncio.current_task()

        return note

    async def story() -> None:
        ones = await relayed(*(noted(number) for number in range(100)))
        assert ran == list(range(100))
        assert len({one.came for one in ones}) == 1

    asyncio.run(story())


def test_one_that_waits_has_a_task_of_its_own_which_stays_the_same() -> None:
    async def story() -> None:
        first, *waiting, last = await relayed(own_task, *[task_before_and_after] * 3, own_task)
        tasks = []
        for one in waiting:
            assert isinstance(one.came, tuple)
            before, after = one.came
            assert before is after
            tasks.append(before)
        assert len(set(tasks)) == 3
        assert first.came is tasks[0], "nobody had waited yet"
        assert last.came not in tasks

    asyncio.run(story())


def test_those_behind_one_that_waits_do_not_wait_for_it() -> None:
    async def story() -> None:
        gate = asyncio.Event()
        relay = CoroutineBatch(asyncio.get_running_loop(), run)
        waits, quick, later = One(gate.wait), One(own_task), One(own_task)
        relay.add([waits, quick])
        await quick.over.wait()
        relay.add([later])
        await later.over.wait()
        assert not waits.over.is_set()
        gate.set()
        await waits.over.wait()

    asyncio.run(story())


def test_what_one_leaves_in_its_context_is_not_seen_by_the_next_nor_is_what_the_engine_set() -> None:
    async def sets() -> object:
        seen = SET.get()
        SET.set("a secret")
        return seen

    async def sets_and_waits() -> object:
        seen = await sets()
        await asyncio.sleep(0)
        return seen, SET.get()

    async def story() -> None:
        SET.set("a secret of the engine")
        ones = await relayed(sets, sets, sets_and_waits, sets)
        assert [one.came for one in ones] == ["nothing", "nothing", ("nothing", "a secret"), "nothing"]

    asyncio.run(story())


def test_a_timeout_of_one_is_its_own() -> None:
    async def late() -> object:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return "late"

    async def story() -> None:
        ones = await relayed(late, own_task, late)
        assert [one.came for one in ones[::2]] == ["late", "late"]

    asyncio.run(story())


def test_a_cancel_reaches_the_one_that_waits_and_nobody_else() -> None:
    async def survives() -> object:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return "cancelled, and went on"

    async def story() -> None:
        relay, gate = CoroutineBatch(asyncio.get_running_loop(), run), asyncio.Event()
        one, other, ended = One(survives), One(gate.wait), One(own_task)
        relay.add([one, other, ended])
        await ended.over.wait()
        assert ended.task is None, "what is over has no task that could be cancelled"
        assert one.task is not None
        one.task.cancel()
        await one.over.wait()
        assert one.came == "cancelled, and went on"
        assert not other.over.is_set()
        gate.set()
        await other.over.wait()
        assert other.came is True

    asyncio.run(story())


def test_one_that_cancels_its_own_task_and_returns_does_not_cancel_the_next() -> None:
    async def cancels() -> object:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async def story() -> None:
        ones = await relayed(cancels, task_before_and_after, cancels, own_task)
        assert ones[0].came == ones[2].came == "done"
        assert isinstance(ones[1].came, tuple)
        assert isinstance(ones[3].came, asyncio.Task)

    asyncio.run(story())


def test_a_runner_that_is_cancelled_before_it_has_begun_is_replaced() -> None:
    async def story() -> None:
        relay, one = CoroutineBatch(asyncio.get_running_loop(), run), One(own_task)
        relay.add([one])
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # as a program does that ends everything
        await one.over.wait()
        assert isinstance(one.came, asyncio.Task)

    asyncio.run(story())


def test_what_has_not_begun_can_be_taken_back() -> None:
    async def story() -> None:
        relay, ones = CoroutineBatch(asyncio.get_running_loop(), run), [One(own_task) for _ in range(3)]
        relay.add(ones)
        assert relay.take_back() == ones
        await asyncio.sleep(0.01)
        assert not any(one.over.is_set() for one in ones)
        relay.add(ones[:1])
        await ones[0].over.wait()

    asyncio.run(story())


def test_others_on_the_loop_have_their_turn() -> None:
    async def story() -> None:
        relay, ones = CoroutineBatch(asyncio.get_running_loop(), run), [One(own_task) for _ in range(3 * TURN_MAX)]
        relay.add(ones)
        turns = []
        while not ones[-1].over.is_set():
            await asyncio.sleep(0)
            turns.append(sum(one.over.is_set() for one in ones))
        assert TURN_MAX in turns
        assert 2 * TURN_MAX in turns

    asyncio.run(story())
