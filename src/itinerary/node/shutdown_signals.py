"""Run a node until a signal ends it (R9).

    SIGTERM or SIGINT      take no new work, release unstarted occurrences, end the rest as `on_shutdown` says
    a second one           end at once; other nodes or the next start take over the rest
    SIGHUP                 reload the settings (U13)

The handlers are installed before the node starts, so that no signal is lost: a signal during the start ends the start.
The thread that handles signals, and the deadline that begins with the first one, are in `signal_thread`. The main
thread only waits here.

SIGHUP also means that the terminal is gone. A node that was started in a terminal ends with it, gracefully, unless
SIGHUP is ignored (`nohup`). On a system without SIGHUP everything else works.

Exit codes: 0 everything ended; 3 a run was unfinished at its deadline, and the log names it; 1 the node could not
continue; 128 plus the signal number after a second signal.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from itinerary.node.signal_thread import AT_ONCE, SignalThread, Stoppable
from itinerary.node.thread import NodeThread
from itinerary.schedules.durations import SECOND
from itinerary.signal_safe_wait import result_of, wait_for

__all__ = ["EXIT_ERROR", "EXIT_OK", "EXIT_UNFINISHED", "run_until_signalled"]

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_UNFINISHED: Final = 3
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)


class _Hangup:
    """The meaning of SIGHUP for this process."""

    def __init__(self) -> None:
        self._has_terminal = _HANGUP is not None and signal.getsignal(_HANGUP) != signal.SIG_IGN and _has_terminal()

    def __call__(self, engine: Stoppable) -> str | None:
        """Return the reason to end if the terminal is gone. Otherwise reload the settings."""
        if self._has_terminal and not _has_terminal():
            return "its terminal is gone (SIGHUP)"
        assert isinstance(engine, NodeThread), "it was attached here"
        engine.reread()
        return None


def run_until_signalled(
    begin: Callable[[], NodeThread], on_ready: Callable[[], None], log: Any, *, owns_process: bool = False
) -> int:
    """Start a node, wait for its end, and return the exit code.

    Raises the error of a start that failed, or the error that ended the node.

    Args:
        begin: Makes and starts the node thread.
        on_ready: Called when the node has started.
        log: The log for an end by force.
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
    """True if this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


@contextmanager
def _obeyed(*, owns_process: bool) -> Iterator[SignalThread | None]:
    """Handle signals within the block. Only a main thread can; any other yields None."""
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
