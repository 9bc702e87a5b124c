"""Threads that a process can leave behind: calls, deadlines and the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from itinerary.errors import StoreUnavailable
from itinerary.stores.threads import DaemonThreads, in_thread

_HANG = 30.0


def _run(story: Coroutine[Any, Any, None]) -> None:
    async def within() -> None:
        async with asyncio.timeout(_HANG):
            await story

    asyncio.run(within())


def _fail() -> None:
    raise LookupError("it is not there")


def test_calls_are_answered_in_as_many_threads_as_are_allowed_and_errors_are_raised() -> None:
    async def story() -> None:
        threads = DaemonThreads(3, "test")
        together = threading.Barrier(3)
        calls = [threads.submit(together.wait, _HANG) for _ in range(6)]
        places = [await threads.answer(call, _HANG, "it") for call in calls]
        assert sorted(places) == [0, 0, 1, 1, 2, 2]
        with pytest.raises(LookupError):
            await threads.answer(threads.submit(_fail), _HANG, "it")
        assert await threads.close(_HANG) == 0
        with pytest.raises(RuntimeError, match="told to end"):
            threads.submit(_fail)

    _run(story())


def test_a_caller_is_told_when_no_thread_has_answered_for_as_long_as_it_waits() -> None:
    async def story() -> None:
        threads, goes_on = DaemonThreads(1, "test"), threading.Event()
        stuck = threads.submit(goes_on.wait, _HANG)
        behind = threads.submit(goes_on.is_set)
        for call in (stuck, behind):
            with pytest.raises(StoreUnavailable, match=r"it has not answered for 0.05 s"):
                await threads.answer(call, 0.05, "it")
        assert behind.cancelled(), "what has not begun is dropped"
        assert await threads.close(0.05) == 1, "one is left behind"
        goes_on.set()
        assert await threads.close(_HANG) == 0

    _run(story())


def test_a_queue_that_moves_is_waited_for_however_long_it_is() -> None:
    async def story() -> None:
        threads = DaemonThreads(1, "test")
        began_at = time.monotonic()
        calls = [threads.submit(time.sleep, 0.8) for _ in range(5)]
        await threads.answer(calls[-1], 3.0, "it")
        assert time.monotonic() - began_at > 3.0
        assert await threads.close(_HANG) == 0

    _run(story())


def test_a_call_in_a_thread_of_its_own_has_a_deadline() -> None:
    async def story() -> None:
        goes_on = threading.Event()
        assert await in_thread(lambda: 3, _HANG, "it") == 3
        with pytest.raises(LookupError):
            await in_thread(_fail, _HANG, "it")
        with pytest.raises(StoreUnavailable, match=r"it has not answered for 0.05 s"):
            await in_thread(lambda: goes_on.wait(_HANG), 0.05, "it")
        goes_on.set()

    _run(story())


def test_the_threads_do_not_keep_a_process_alive() -> None:
    before = set(threading.enumerate())
    goes_on = threading.Event()

    async def story() -> None:
        threads = DaemonThreads(2, "test")
        calls = [threads.submit(goes_on.wait, _HANG) for _ in range(2)]
        new = set(threading.enumerate()) - before
        assert len(new) == 2
        assert all(thread.daemon for thread in new)
        goes_on.set()
        for call in calls:
            await threads.answer(call, _HANG, "it")
        assert await threads.close(_HANG) == 0

    _run(story())


def test_a_call_that_hangs_is_given_up_although_other_threads_answer() -> None:
    async def story() -> None:
        threads, goes_on = DaemonThreads(2, "test"), threading.Event()
        stuck = threads.submit(goes_on.wait, _HANG)
        waiting = asyncio.create_task(threads.answer(stuck, 0.2, "it"))
        while not waiting.done():
            await threads.answer(threads.submit(goes_on.is_set), _HANG, "it")
        with pytest.raises(StoreUnavailable, match=r"it has not answered for 0.2 s"):
            await waiting
        goes_on.set()
        assert await threads.close(_HANG) == 0

    _run(story())
