"""What tasks of the contract do, as functions. The bell that they ring is a named pipe, at the path that is `ctx.node`.

This module is imported by worker processes as well, so it imports little.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

__all__ = ["PLAIN", "ring"]


def ring(ctx: Any) -> None:
    """Tell the test that the task runs."""
    with Path(ctx.node).open("w") as bell:
        bell.write("x")


# -- plain functions ---------------------------------------------------------------------------------------------------


def succeed(ctx: Any) -> dict[str, Any]:
    return {"task": ctx.task, "attempt": ctx.attempt}


def nothing() -> None:
    """Takes no argument, returns nothing."""


def fail() -> NoReturn:
    raise KeyError("no such thing")


def print_something() -> None:
    print("to standard output")
    print("to standard error", file=sys.stderr)


def leave() -> NoReturn:
    sys.exit(3)


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def obey(ctx: Any) -> None:
    ring(ctx)
    while True:
        ctx.raise_if_cancelled()
        time.sleep(0.001)


def ignore(ctx: Any) -> None:
    """Never ends by itself, whatever it is asked; but for the end of the program that runs the tests."""
    if os.getpid() == os.getpgrp() and "pytest" not in sys.modules:  # in a worker process
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ring(ctx)
    parent = Path(ctx.node)
    while parent.exists():
        time.sleep(0.001)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


PLAIN = ("succeed", "nothing", "fail", "print_something", "leave", "interrupt", "obey", "ignore", "die")


# -- coroutine functions -----------------------------------------------------------------------------------------------


async def async_succeed(ctx: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return succeed(ctx)


async def async_nothing() -> None:
    """Takes no argument, returns nothing."""


async def async_fail() -> NoReturn:
    fail()


async def async_leave() -> NoReturn:
    leave()


async def async_interrupt() -> NoReturn:
    interrupt()


async def async_obey(ctx: Any) -> None:
    ring(ctx)
    await asyncio.get_running_loop().create_future()


async def async_ignore(ctx: Any) -> None:
    ring(ctx)
    while os.path.exists(ctx.node):  # noqa: ASYNC240, PTH110 - a test's task, and quick
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            continue
