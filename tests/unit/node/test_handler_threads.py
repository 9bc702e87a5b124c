"""Where plain functions of a desk run: in a pool of threads, each call with its caller's context."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from itinerary.node.record_handlers import HandlerLeft, Threads
from tests.integration.api.conftest import run

SIZE = 64
REQUEST: ContextVar[str] = ContextVar("REQUEST", default="none")


@pytest.mark.spec("E10")
def test_calls_one_after_the_other_share_threads() -> None:
    async def program() -> set[str]:
        threads, names = Threads(SIZE), set()
        for _ in range(4 * SIZE):
            names.add(await threads.run(lambda _: threading.current_thread().name, None))
        threads.close()
        return names

    assert len(run(program())) <= SIZE, "a thread that has just answered may not be idle yet, but is used again"


@pytest.mark.spec("E10")
def test_a_function_sees_its_callers_context_and_leaves_nothing_in_it() -> None:
    def work(request: str) -> tuple[str, str]:
        seen = REQUEST.get()
        REQUEST.set(f"left behind by {request}")
        return request, seen

    async def called(threads: Threads, request: str) -> tuple[str, str]:
        REQUEST.set(request)
        found: tuple[str, str] = await threads.run(work, request)
        assert REQUEST.get() == request
        return found

    async def program() -> list[tuple[str, str]]:
        threads = Threads(2)
        names = [str(number) for number in range(20)]
        return await asyncio.gather(*[called(threads, name) for name in names])

    assert all(request == seen for request, seen in run(program()))


@pytest.mark.spec("E10")
def test_functions_that_hang_count_and_further_calls_wait_for_a_thread() -> None:
    async def program() -> None:
        threads, proceed = Threads(1), threading.Event()
        given_up = asyncio.ensure_future(threads.run(lambda _: proceed.wait(60), None))
        await asyncio.sleep(0)
        given_up.cancel()
        waiting = asyncio.ensure_future(threads.run(str, 7))
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert not waiting.done()
        proceed.set()
        assert await waiting == "7"

    run(program())


@pytest.mark.spec("E10")
def test_a_handler_that_wants_to_end_the_program_ends_only_itself() -> None:
    def leaves(_: object) -> None:
        raise SystemExit(3)

    async def program() -> str:
        threads = Threads(1)
        with pytest.raises(HandlerLeft, match="SystemExit"):
            await threads.run(leaves, None)
        answer: str = await threads.run(str, 1)
        return answer

    assert run(program()) == "1"
