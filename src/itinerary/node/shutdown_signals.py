"""A node that runs until it is told to end (R9).

    SIGTERM or SIGINT      take no new work, give back what has not started, end the rest as `on_shutdown` says
    a second one           end at once; other nodes and the next start have the rest
    SIGHUP                 read the settings again (U13)

Signals are taken before the node starts, so that none is lost: a signal that comes during the start ends the start. The
thread that obeys them, and the deadline that holds from the first one on, are in `signal_thread`. The main thread only
waits here.

SIGHUP has an older meaning, too: the terminal is gone. A node that somebody started in one ends with it, gracefully,
unless it was told to stay (`nohup`). A system without SIGHUP has no such signal, and everything else works there.

Exit codes: 0 everything ended; 3 something still ran when its time was over, and the log says what; 1 the node could
not go on; 128 and the signal's number after a second signal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from itinerary.node.signal_thread import AT_ONCE, Ending, SignalThread
from itinerary.node.thread import Engine
from itinerary.schedules.durations import SECOND
from itinerary.signal_safe_wait import result_of, wait_for

__all__ = ["EXIT_ERROR", "EXIT_OK", "EXIT_UNFINISHED", "run_until_signalled"]

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_UNFINISHED: Final = 3
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)


class _Hangup:
    """What SIGHUP means here."""

    def __init__(self) -> None:
        self._has_terminal = _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN and _has_terminal()

    def __call__(self, engine: Ending) -> str | None:
        """Return why to end, if the terminal is gone. Otherwise read the settings again."""
        if self._has_terminal and not _has_terminal():
            return "its terminal is gone (SIGHUP)"
        assert isinstance(engine, Engine), "it was attached here"
        engine.reread()
        return None


def run_until_signalled(
    begin: Callable[[], Engine], on_ready: Callable[[], None], log: Any, *, owns_process: bool = False
) -> int:
    """Start a node, wait for its end, and return the exit code. Raises what its start raised, or why it stopped.

    Args:
        begin: Makes and starts the engine.
        on_ready: Called when the node has started.
        log: Where a process that is ended by force says so.
        owns_process: True if the process ends after this: its deadline then holds until the process is gone.
    """
    with _obeyed(owns_process=owns_process) as signals:
        engine = begin()
        if signals is not None:
            signals.attach(engine, log)
        try:
            result_of(engine.ready)
            on_ready()
        except Exception as error:
            if signals is None or not signals.numbers:
                engine.shut_down("the program that runs it could not go on")
                wait_for(engine.ended, engine.shutdown_timeout / SECOND)
                raise
            log.info("start.ended_by_signal", error=str(error))
        wait_for(engine.ended)
        engine.join(AT_ONCE)
        numbers = [] if signals is None else signals.numbers
        if len(numbers) > 1:
            return 128 + numbers[-1]
        if (failure := engine.failure()) is not None:
            raise failure
        ended = engine.ended.result()
        return EXIT_UNFINISHED if ended is not None and ended.unfinished else EXIT_OK


def _has_terminal() -> bool:
    """Whether this process has a terminal that it can be ended with."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def _obeyed(*, owns_process: bool) -> Iterator[SignalThread | None]:
    """Take the signals meanwhile. Only a main thread can; another one yields None."""
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    signals = SignalThread(_Hangup(), EXIT_UNFINISHED)
    try:
        signals.open(_SIGNALS if _HANGUP is None else (*_SIGNALS, _HANGUP))
        yield signals
    finally:
        if owns_process:
            signals.leave(EXIT_ERROR)
        else:
            signals.close()
