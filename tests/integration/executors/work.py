"""What worker processes are asked to do in these tests. They import it, so it imports little."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

from tests.contracts.executors.tasks import ring

LEAKED: ContextVar[str] = ContextVar("LEAKED", default="nothing")


def pid() -> int:
    return os.getpid()


def parts() -> dict[str, Any]:
    return {
        "main": sys.modules["__main__"].__spec__ is None,
        "path": str(Path(__file__).resolve().parents[3]) in sys.path,
        "thread": threading.current_thread() is threading.main_thread(),
        "forked": "pytest" in sys.modules,
    }


def exit_now() -> NoReturn:
    print("a last word", flush=True)
    os._exit(3)


def segfault() -> None:
    ctypes.string_at(0)


def terminated_by_somebody() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1000)


def talks_nonsense() -> NoReturn:
    """Writes into the socket that the worker and its pool share."""
    for handle in range(3, 50):
        try:
            os.write(handle, b"\xff" * 100)
        except OSError:
            continue
    time.sleep(1000)
    raise AssertionError("unreachable")


def answers_and_dies() -> str:
    """Returns, and takes its process away when the answer is on its way: when the main thread waits again."""

    def die() -> None:
        idle = 0
        while idle < 50:
            frame = sys._current_frames()[threading.main_thread().ident or 0]
            idle = idle + 1 if frame.f_code.co_name == "next" else 0
            time.sleep(0.001)
        os._exit(0)

    threading.Thread(target=die, daemon=True).start()
    return "x" * 65_500  # more than is read at once


def is_terminated_before_it_has_answered() -> str:
    """Returns, and its process receives SIGTERM when the output is written, just before the answer is sent."""

    stdout = sys.__stdout__

    class Output:
        def flush(self) -> None:
            sys.__stdout__ = sys.stdout = stdout  # type: ignore[misc]  # so that the end of the process finds the real one
            os.kill(os.getpid(), signal.SIGTERM)

    sys.__stdout__ = Output()  # type: ignore[misc, assignment]  # what a function should not do
    return "done"


def prints(ctx: Any) -> None:
    print("from python")
    os.write(2, b"from below\n")
    subprocess.run(["/bin/echo", "from a child"], check=True)


def floods() -> None:
    for number in range(400_000):
        print(f"{number:09}")


def closes_its_output() -> None:
    sys.stdout.close()


def leaks() -> list[str]:
    seen = [LEAKED.get(), str(Path.cwd())]
    LEAKED.set("something")
    os.chdir("/")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return seen


def cleans_up(ctx: Any) -> None:
    try:
        ring(ctx)
        time.sleep(1000)
    finally:
        print("cleaned up")


def with_child(ctx: Any) -> None:
    child = subprocess.Popen(["/bin/sleep", "1000"])
    Path(ctx.node + ".pid").write_text(f"{child.pid}\n")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ring(ctx)
    while True:
        time.sleep(1000)


async def coroutine(ctx: Any) -> str:
    await asyncio.sleep(0)
    return f"{ctx.job}/{ctx.task}"


async def waits(ctx: Any) -> None:
    try:
        ring(ctx)
        await asyncio.get_running_loop().create_future()
    finally:
        print("awaited its end")


async def wants_a_transaction(ctx: Any) -> None:
    async with ctx.transaction():
        pass


def logs(ctx: Any) -> None:
    ctx.log.info("building", rows=3)


def never_lets_others_run(ctx: Any) -> None:
    ring(ctx)
    re.match(r"(a+)+$", "a" * 64 + "b")  # for years, without letting another thread of this process run
