"""Virtual time: it jumps, it is shuffled by dice and by nothing else, and processes in it freeze and crash."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from itinerary.testing.processes import Process, in_process
from itinerary.testing.virtual_loop import SimulationError, Stalled, VirtualLoop
from tests.simulation.world.rng import dice_for

T = TypeVar("T")


@contextmanager
def virtual(seed: int = 1) -> Iterator[VirtualLoop]:
    loop = VirtualLoop(dice_for(seed, "order"))
    try:
        yield loop
    finally:
        loop.bury()
        loop.close()


def live(work: Callable[[VirtualLoop], Awaitable[T]], seed: int = 1) -> T:
    """Run a story on a virtual loop."""
    with virtual(seed) as loop:

        async def story() -> T:
            return await work(loop)

        return loop.run_until_complete(story())


@pytest.mark.spec("U6", "simulation")
def test_a_day_passes_at_once() -> None:
    async def story(loop: VirtualLoop) -> float:
        await asyncio.sleep(86_400)
        return loop.time()

    assert live(story) == 86_400


def test_timers_fire_in_their_order_and_at_their_time() -> None:
    async def story(loop: VirtualLoop) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []

        def note(name: str) -> None:
            seen.append((name, loop.time()))

        for name, delay in (("late", 3.0), ("early", 1.0), ("middle", 2.0)):
            loop.call_later(delay, note, name)
        await asyncio.sleep(5)
        return seen

    assert live(story) == [("early", 1.0), ("middle", 2.0), ("late", 3.0)]


def test_a_cancelled_timer_does_not_hold_time_up() -> None:
    async def story(loop: VirtualLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await loop.create_future()
        async with asyncio.timeout(1_000):
            await asyncio.sleep(1)
        return loop.time()

    assert live(story) == 11


def order_of(seed: int) -> list[int]:
    async def story(_: VirtualLoop) -> list[int]:
        seen: list[int] = []

        async def note(number: int) -> None:
            await asyncio.sleep(1)
            seen.append(number)

        await asyncio.gather(*(note(number) for number in range(20)))
        return seen

    return live(story, seed)


def test_the_dice_choose_the_order_of_what_is_ready_at_one_moment() -> None:
    assert order_of(1) == order_of(1)
    assert order_of(1) != order_of(2)
    assert sorted(order_of(2)) == list(range(20))


def test_a_group_is_cancelled_in_an_order_that_only_the_dice_know() -> None:
    """asyncio goes through a set of tasks there; addresses must not decide."""

    def cancelled_in() -> list[int]:
        async def story(_: VirtualLoop) -> list[int]:
            seen: list[int] = []

            async def wait(number: int) -> None:
                try:
                    await asyncio.sleep(100)
                finally:
                    seen.append(number)

            async def fail() -> None:
                await asyncio.sleep(1)
                raise ValueError

            async def group_of_them() -> None:
                async with asyncio.TaskGroup() as group:
                    for number in range(50):
                        group.create_task(wait(number))
                    group.create_task(fail())

            with pytest.raises(ExceptionGroup):
                await group_of_them()
            return seen

        return live(story)

    clutter = []
    first = cancelled_in()
    for size in range(5):
        clutter.append([object() for _ in range(997 * size)])
        assert cancelled_in() == first
    assert first != sorted(first)


def test_a_frozen_process_stands_still_and_goes_on_in_the_order_of_its_timers() -> None:
    async def story(loop: VirtualLoop) -> list[tuple[str, float]]:
        process, seen = Process("a", 1), []

        async def tick(name: str, every: float) -> None:
            for _ in range(3):
                await asyncio.sleep(every)
                seen.append((name, loop.time()))

        with in_process(process):
            inside = [loop.create_task(tick("slow", 4)), loop.create_task(tick("quick", 3))]
        outside = loop.create_task(tick("other", 3))
        await asyncio.sleep(1)
        loop.freeze(process)
        await asyncio.sleep(9)
        assert {name for name, _ in seen} == {"other"}
        loop.thaw(process)
        await asyncio.gather(*inside, outside)
        return [one for one in seen if one[0] != "other"]

    # What was due while it was frozen happens when it thaws, the earliest first; then its sleeps are as long as ever.
    assert live(story) == [
        ("quick", 10.0),
        ("slow", 10.0),
        ("quick", 13.0),
        ("slow", 14.0),
        ("quick", 16.0),
        ("slow", 18.0),
    ]


@pytest.mark.filterwarnings("error")
def test_nothing_of_a_crashed_process_runs_again_not_even_its_clean_up() -> None:
    async def story(loop: VirtualLoop) -> list[str]:
        process, seen = Process("a", 1), []
        process.at_crash(lambda: seen.append("crash"))

        async def life() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(50))
                    await asyncio.sleep(20)
                    seen.append("went on")
            finally:
                seen.append("cleaned up")

        with in_process(process):
            loop.create_task(life())
        await asyncio.sleep(10)
        loop.crash(process)
        await asyncio.sleep(100)
        return list(seen)

    assert live(story) == ["crash"]


def test_what_a_process_begins_belongs_to_it() -> None:
    async def story(loop: VirtualLoop) -> list[str]:
        process, seen = Process("a", 1), []

        async def child() -> None:
            await asyncio.sleep(5)
            seen.append("child")

        async def parent() -> None:
            loop.create_task(child())
            loop.call_later(5, seen.append, "timer")

        with in_process(process):
            loop.create_task(parent())
        await asyncio.sleep(1)
        loop.crash(process)
        await asyncio.sleep(10)
        return seen

    assert live(story) == []


def test_an_answer_from_outside_waits_for_a_frozen_process() -> None:
    async def story(loop: VirtualLoop) -> tuple[float, float]:
        process, answer, heard = Process("a", 1), loop.create_future(), []

        async def ask() -> None:
            await answer
            heard.append(loop.time())

        with in_process(process):
            asked = loop.create_task(ask())
        await asyncio.sleep(1)
        loop.freeze(process)
        answer.set_result(None)
        await asyncio.sleep(4)
        loop.thaw(process)
        thawed_at = loop.time()
        await asked
        return thawed_at, heard[0]

    assert live(story) == (5.0, 5.0)


def test_when_nothing_is_left_to_happen_it_says_what_waits_and_where() -> None:
    async def wait_for_ever(loop: VirtualLoop) -> None:
        await loop.create_future()

    said = r"nothing is left to happen at 0\.000000 s.*wait_for_ever.*test_virtual_loop\.py:\d+"
    with pytest.raises(Stalled, match=said):
        live(wait_for_ever)


def test_a_loop_that_never_lets_time_pass_is_found_out() -> None:
    async def spin(_: VirtualLoop) -> None:
        while True:  # noqa: ASYNC110 - that is what is wrong with it
            await asyncio.sleep(0)

    with pytest.raises(Stalled, match="time stands still at 0"):
        live(spin)


def test_threads_are_refused() -> None:
    async def to_a_thread(_: VirtualLoop) -> None:
        with pytest.raises(SimulationError, match="a thread for"):
            await asyncio.to_thread(print)

    live(to_a_thread)


def test_a_callback_from_another_thread_is_refused() -> None:
    with virtual() as loop:
        errors: list[BaseException] = []

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except SimulationError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert "another thread" in str(errors[0])


def test_what_a_callback_raises_reaches_the_exception_handler() -> None:
    async def story(loop: VirtualLoop) -> list[object]:
        heard: list[object] = []
        loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        return heard

    (error,) = live(story)
    assert isinstance(error, ZeroDivisionError)
