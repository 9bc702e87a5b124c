"""A node that runs until it is told to end (R9).

    SIGTERM or SIGINT      take no new work, give back what has not started, cancel what runs, wait, write everything
    a second one           end at once; other nodes and the next start have the rest
    SIGHUP                 read the settings again (U13)

SIGHUP has an older meaning, too: the terminal is gone. A node that somebody started in one ends with it, gracefully,
unless it was told to stay (`nohup`). A system without SIGHUP has no such signal, and everything else works there.

Exit codes: 0 everything ended; 3 something still ran when its time was over, and the reaper has it; 1 the node could
not go on; 128 and the signal's number after a second signal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from types import FrameType
from typing import Final

from itinerary.app.engine import Engine

__all__ = ["EXIT_ERROR", "EXIT_OK", "EXIT_UNFINISHED", "run_until_signalled"]

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_UNFINISHED: Final = 3
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)
_AT_ONCE: Final = 5.0
"""How long ending at once may take: processes are killed, and threads that hang are left behind."""


class _Signalled:
    """What signals have come."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.numbers: list[int] = []
        self._has_terminal = _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN and _has_terminal()

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if number == _HANGUP:
            if not self._has_terminal or _has_terminal():
                self._engine.reread()
                return
            if self.numbers:
                return  # a terminal that goes says so several times, and nobody asks to hurry
        self.numbers.append(number)
        if len(self.numbers) == 1:
            self._engine.shut_down(f"it got {signal.Signals(number).name}")
        else:
            self._engine.abandon()


def run_until_signalled(engine: Engine, on_ready: Callable[[], None]) -> int:
    """Wait for a node to end, whoever ends it. Returns the exit code; raises what its start raised."""
    signalled = _Signalled(engine)
    with _handled_by(signalled):
        try:
            engine.ready.result()
            on_ready()
            wait([engine.ended])
        except Exception:
            if not signalled.numbers:
                raise
            return 128 + signalled.numbers[-1]  # it was ended while it started, and whatever came of that
        finally:
            engine.join(_AT_ONCE)
    if (failure := engine.failure()) is not None:
        raise failure
    ended = engine.ended.result()
    if ended is None:
        return 128 + signalled.numbers[-1]
    return EXIT_UNFINISHED if ended.unfinished else EXIT_OK


def _has_terminal() -> bool:
    """Whether this process has a terminal that it can be ended with."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def _handled_by(handler: _Signalled) -> Iterator[None]:
    """Signals go to the handler meanwhile; only the main thread can have them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = _SIGNALS if _HANGUP is None else (*_SIGNALS, _HANGUP)
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
