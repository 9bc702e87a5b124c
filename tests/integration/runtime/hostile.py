"""Tasks that misbehave, each in its own way. Worker processes import this, so it imports little.

What would go on for ever goes on for as long as there is a file at the path that is `ctx.node`: the test removes it,
and nothing is left behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

__all__ = ["MODULE"]

MODULE: Final = "tests.integration.runtime.hostile"


class Upheaval(BaseException):
    """Nothing that an `except Exception` would catch."""


def tick() -> None:
    """What should go on whatever the others do. A plain function: it runs in a thread."""


async def async_tick() -> None:
    """The same, on the loop of the coroutines."""


ignores = threading.Event()
"""One ignores its cancellation: on the same loop, so it must have begun before that is blocked."""


async def ignores_cancellation(ctx: Any) -> None:
    ignores.set()
    while os.path.exists(ctx.node):  # noqa: ASYNC240, PTH110 - a hostile task, though a quick one
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


def stuck_thread(ctx: Any) -> None:
    while Path(ctx.node).exists():
        time.sleep(0.05)


async def blocks_its_loop(ctx: Any) -> None:
    while not ignores.is_set():  # noqa: ASYNC110 - tasks on any loop may set it
        await asyncio.sleep(0.01)
    while os.path.exists(ctx.node):  # noqa: ASYNC240, PTH110 - to block is what it is for
        time.sleep(0.05)  # noqa: ASYNC251 - to block is what it is for


def forks_children(ctx: Any) -> NoReturn:
    """In a worker process: children and grandchildren, none of which listens."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script = "trap '' TERM; sleep 1000 >&2 & echo $!; sleep 1000 >&2 & echo $!; exec >&2; wait"
    shell = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own script
    assert shell.stdout is not None
    children = [str(shell.pid), *shell.stdout.read().split()]
    Path(f"{ctx.node}.children").write_text(" ".join([str(os.getpid()), *children]))
    while True:
        time.sleep(1.0)


def dies() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


async def async_upheaval() -> NoReturn:
    raise Upheaval("in a coroutine")


def thread_upheaval() -> NoReturn:
    raise Upheaval("in a thread")


def leaves() -> NoReturn:
    sys.exit(3)


async def interrupts() -> NoReturn:
    raise KeyboardInterrupt


async def hook_that_raises(about: Any) -> NoReturn:
    raise Upheaval("in a hook")


def hook_that_fails(about: Any) -> NoReturn:
    raise RuntimeError("in another hook")


HUGE: Final = 100 * 1024 * 1024
"""Bytes of what the following return, raise or print."""
_made: list[str] = []


def huge() -> str:
    """A text of that size: the same one each time, so that a test can see whether anything makes a copy of it."""
    if not _made:
        _made.append("x" * HUGE)
    return _made[0]


async def async_returns_much() -> str:
    return huge()


def returns_much() -> dict[str, list[str]]:
    return {"rows": [huge()]}


async def async_raises_much() -> NoReturn:
    raise ValueError(huge())


def raises_much() -> NoReturn:
    group = ExceptionGroup("many", [ValueError(number) for number in range(100_000)])
    group.add_note(huge())
    raise group from KeyError([huge()])


def prints_much() -> None:
    line = "y" * 65_535 + "\n"
    for _ in range(HUGE // len(line)):
        sys.stdout.write(line)
