"""A thread pool that never holds up the end of a program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from itinerary.daemon_pool import JOIN_TIMEOUT, DaemonPool

PATIENCE = 60.0


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait for a thread, but not for ever."""
    until = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < until, "a thread never came to that"
        time.sleep(0.001)


def test_a_thread_is_used_again_and_a_new_one_is_started_only_if_all_are_busy() -> None:
    pool = DaemonPool("test", 8)
    names = set()
    for _ in range(50):
        names.add(pool.submit(lambda: threading.current_thread().name).result(PATIENCE))
        wait_until(lambda: pool._unclaimed > 0)  # the thread has answered, and is about to be idle
    assert names == {"test_0"}
    pool.shutdown()


def test_no_more_than_so_many_run_at_a_time_and_the_others_wait() -> None:
    pool, proceed, running = DaemonPool("test", 2), threading.Event(), []

    def work(number: int) -> int:
        running.append(number)
        proceed.wait(PATIENCE)
        return number

    futures = [pool.submit(work, number) for number in range(6)]
    wait_until(lambda: len(running) > 1)
    assert len(running) == 2
    proceed.set()
    assert [future.result(PATIENCE) for future in futures] == list(range(6))
    assert sum(thread.name.startswith("test_") for thread in threading.enumerate()) <= 2
    pool.shutdown()


def test_what_a_function_raises_is_raised_where_its_result_is_asked_for() -> None:
    pool = DaemonPool("test", 1)

    def leaves() -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        pool.submit(leaves).result(PATIENCE)
    assert pool.submit(lambda: "still there").result(PATIENCE) == "still there"
    pool.shutdown()


def test_what_waits_is_cancelled_if_that_is_wanted_and_nothing_new_is_taken() -> None:
    pool, proceed, has_begun = DaemonPool("test", 1), threading.Event(), threading.Event()

    def work() -> str:
        has_begun.set()
        proceed.wait(PATIENCE)
        return "done"

    first, second = pool.submit(work), pool.submit(work)
    assert has_begun.wait(PATIENCE)
    pool.shutdown(wait=False, cancel_futures=True)
    proceed.set()
    assert first.result(PATIENCE) == "done"
    with pytest.raises(CancelledError):
        second.result(PATIENCE)
    with pytest.raises(RuntimeError, match="test is shut down"):
        pool.submit(work)


def test_a_shutdown_does_not_wait_for_ever_and_asyncio_takes_the_pool_as_its_own() -> None:
    never = threading.Event()

    async def program() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(DaemonPool("test", 2))
        stuck = loop.run_in_executor(None, never.wait)
        answer = await asyncio.to_thread(lambda: "here")
        stuck.cancel()
        return answer

    began = time.monotonic()
    assert asyncio.run(program()) == "here"
    assert time.monotonic() - began >= JOIN_TIMEOUT, "it was waited for, for a while"
    never.set()


def test_python_ends_though_a_thread_of_the_pool_never_does() -> None:
    program = (
        "import threading; from itinerary.daemon_pool import DaemonPool; DaemonPool('x').submit(threading.Event().wait)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=False).returncode == 0  # noqa: S603
