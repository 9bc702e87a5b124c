"""The event loop of a node, with a time limit for its end.

`asyncio.Runner` waits at its end for every task that it has cancelled, and for every thread of the default executor. A
task or thread that never ends would block the node. Here tasks have a few seconds, and the threads are daemons (see
`daemon_pool`). The log names those that are left.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final

from itinerary.daemon_pool import DaemonPool

__all__ = ["close_loop", "ended_within", "names_of", "new_loop", "threads_left"]

_ENDING_TIMEOUT: Final = 2.0
"""The time limit for the end of cancelled tasks, in seconds."""


def new_loop() -> asyncio.AbstractEventLoop:
    """Make a loop whose helper threads do not delay the end of the program."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonPool("itinerary-helper"))
    return loop


def close_loop(loop: asyncio.AbstractEventLoop, log: Any) -> None:
    """Cancel the tasks of a loop, wait a few seconds for their end, and close the loop."""
    try:
        loop.run_until_complete(_end_tasks(log))
        loop.run_until_complete(_bounded(loop.shutdown_asyncgens()))
        loop.run_until_complete(_bounded(loop.shutdown_default_executor()))
    finally:
        loop.close()


async def ended_within(timeout: float, *tasks: asyncio.Future[Any]) -> bool:  # noqa: ASYNC109 - tasks may ignore a cancellation
    """Wait for tasks, even for those that ignore a cancellation. Return False if some have not ended in time."""
    if not tasks:
        return True
    done, left = await asyncio.wait(tasks, timeout=timeout)
    for task in done:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it: only the end matters here
    return not left


def names_of(loop: asyncio.AbstractEventLoop) -> list[str]:
    """Return the names of the tasks that run on a loop. Any thread may call this."""
    return sorted(_name_of(task) for task in asyncio.all_tasks(loop))


def threads_left() -> list[str]:
    """Return the names of the threads that Python's exit waits for, except the main thread."""
    return sorted(
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread() and thread is not threading.current_thread()
    )


def _name_of(task: asyncio.Task[Any]) -> str:
    name, coroutine = task.get_name(), getattr(task.get_coro(), "__qualname__", "")
    return coroutine if coroutine and name.startswith("Task-") else name


async def _end_tasks(log: Any) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    done, left = await asyncio.wait(tasks, timeout=_ENDING_TIMEOUT)
    for task in done:
        if not task.cancelled() and (error := task.exception()) is not None:
            told = {"message": "a task failed while its loop was closed", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(told)
    if left:
        log.error("engine.tasks_left_behind", tasks=sorted(_name_of(task) for task in left))


async def _bounded(work: Coroutine[Any, Any, None]) -> None:
    await ended_within(_ENDING_TIMEOUT + 1.0, asyncio.ensure_future(work))
