"""The thread that handles signals, and ends the process at the deadline.

    kernel ──► any thread: Python's C handler writes the signal's number into a socket  (signal.set_wakeup_fd)
                                                      │
    this thread reads it there  ◄─────────────────────┘
        first signal      shut the node down; from now on one deadline holds for everything
        second signal     end the node at once, within AT_ONCE seconds
        third signal      end the process now
        deadline passed   log what still runs, and end the process

Signals do not depend on the main thread. The kernel may deliver a signal to any thread, and nothing then wakes a main
thread that waits for a lock. A main thread may also be busy in the program's own code, or in Python's exit. A program
that sets its own wakeup descriptor replaces ours. The Python handler, which the main thread runs, detects that,
restores the descriptor and passes the number on itself.

A child that the program forks inherits the handlers and the descriptor. Without further care a SIGTERM to the child, as
from `multiprocessing.Process.terminate`, would end the node. So a child restores both directly after the fork.

The deadline is `shutdown_grace_period` + `kill_grace` + 5 s, from the first signal on. Each part of a shutdown has its
own limit, and normally all of them end in time. This deadline is for a part that does not: a store that does not
answer, a handler that never returns, an event loop that is blocked. The process then ends with `os._exit`, since
Python's own exit waits for threads.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol

from itinerary.model.settings import SHUTDOWN_RESERVE
from itinerary.schedules.durations import SECOND, format_duration

__all__ = ["AT_ONCE", "SignalThread", "Stoppable"]

AT_ONCE: Final = 5.0
"""The limit of an immediate end, in seconds: processes are killed, and hanging threads are left behind."""
_LEAVING_TIMEOUT: Final = 15.0
"""How long a process may take to end after its node has ended by itself, in seconds."""
_SAYING_TIMEOUT: Final = 3.0
"""The limit for the last log message, in seconds: standard error may be a full pipe."""
_NOTHING: Final = b"\0"
"""A byte that only wakes the thread; no signal has this number."""
_HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)
_SHOWN_MAX: Final = 20


class Stoppable(Protocol):
    """The object that signals end: the node thread."""

    @property
    def shutdown_timeout(self) -> int:
        """The limit of a whole shutdown, in microseconds."""

    def shut_down(self, why: str) -> None:
        """End gracefully."""

    def abandon(self) -> None:
        """End at once."""

    def still_running(self) -> list[str]:
        """Return what has not ended yet, in words. Any thread may call this."""


class SignalThread:
    """The signal handling of one node. Make and open it in the main thread."""

    def __init__(self, hangup: Callable[[Stoppable], str | None], exit_code: int) -> None:
        """Create the thread without starting it.

        Args:
            hangup: Decides the meaning of SIGHUP: returns the reason to end, or None.
            exit_code: The exit code after a missed deadline.
        """
        self._hangup, self._exit_code = hangup, exit_code
        self._log: Any = None
        self._ending: Stoppable | None = None
        self._pending: list[int] = []
        self._signalled_at: list[float] = []
        self.numbers: list[int] = []
        """The signals that ask the node to end, in order of arrival."""
        self._is_closed = False
        self._ours, self._theirs = socket.socketpair()
        self._theirs.settimeout(0.0)
        self._thread = threading.Thread(target=self._live, name="itinerary-signals", daemon=True)
        self._taken: frozenset[int] = frozenset()
        self._handled: dict[int, Any] = {}
        self._wakeup_before = -1
        self._leaves_at = math.inf
        self._leaving_code = exit_code

    # -- in the main thread --------------------------------------------------------------------------------------------

    def open(self, numbers: Sequence[int]) -> None:
        """Handle these signals until `close`."""
        self._taken = frozenset(numbers)  # set before the first signal can arrive
        self._thread.start()
        self._wakeup_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._handled = {number: signal.signal(number, self._handle) for number in numbers}
        _open_threads.add(self)

    def attach(self, ending: Stoppable, log: Any) -> None:
        """Set the object that signals end. Earlier signals are handled now."""
        self._log, self._ending = log, ending
        self._wake()

    def leave(self, exit_code: int) -> None:
        """Keep the deadline until the process is gone. Without a signal, the process has a few seconds."""
        self._leaving_code = exit_code
        self._leaves_at = time.monotonic() + _LEAVING_TIMEOUT
        self._wake()

    def close(self) -> None:
        """Restore the signal handlers, and end the thread with its deadline."""
        _open_threads.discard(self)
        self._give_back(self._wakeup_before)
        self._is_closed = True
        if self._thread.ident is not None:
            self._wake()
            self._thread.join(AT_ONCE)
        if not self._thread.is_alive():
            self._ours.close()
            self._theirs.close()

    def give_back_in_child(self) -> None:
        """Restore the signal handlers in a forked child."""
        self._give_back(-1)

    def _give_back(self, wakeup: int) -> None:
        handled, self._handled = self._handled, {}
        for number, before in handled.items():
            signal.signal(number, before)
        if handled:
            signal.set_wakeup_fd(wakeup)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        """Pass the number on, if the program has set another descriptor. Else the C handler has done so."""
        ours = self._theirs.fileno()
        if signal.set_wakeup_fd(ours, warn_on_full_buffer=False) != ours:
            self._send(bytes((number,)))

    def _wake(self) -> None:
        self._send(_NOTHING)

    def _send(self, what: bytes) -> None:
        with suppress(BlockingIOError):  # a full buffer wakes the thread as well
            self._theirs.send(what)

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _live(self) -> None:
        while not self._is_closed:
            left = self._ends_at() - time.monotonic()
            if left <= 0:
                self._end_process()
            self._ours.settimeout(None if math.isinf(left) else left)
            try:
                heard = self._ours.recv(64)
            except TimeoutError:
                continue
            self._pending += [number for number in heard if number in self._taken]
            ending = self._ending
            while ending is not None and self._pending:
                self._obey(ending, self._pending.pop(0))
            if not self._signalled_at and any(number != _HANGUP for number in self._pending):
                self._signalled_at.append(time.monotonic())  # the deadline begins even before the node is made

    def _obey(self, ending: Stoppable, number: int) -> None:
        why: str | None = f"it got {signal.Signals(number).name}"
        if number == _HANGUP:
            why = None if self.numbers else self._hangup(ending)
        if why is None:
            return
        self.numbers.append(number)
        if len(self._signalled_at) < len(self.numbers):
            self._signalled_at.append(time.monotonic())
        if len(self.numbers) == 1:
            ending.shut_down(why)
        else:
            ending.abandon()

    def _ends_at(self) -> float:
        """Return the time at which the process must be gone, on the monotonic clock."""
        if not self._signalled_at:
            return self._leaves_at
        if len(self.numbers) > 2:
            return self._signalled_at[2]
        if len(self.numbers) == 2:
            return self._signalled_at[1] + AT_ONCE
        return self._signalled_at[0] + self._shutdown_timeout / SECOND  # also after the node has ended

    @property
    def _shutdown_timeout(self) -> int:
        return SHUTDOWN_RESERVE if self._ending is None else self._ending.shutdown_timeout

    # -- end by force --------------------------------------------------------------------------------------------------

    def _end_process(self) -> None:
        code = 128 + self.numbers[-1] if len(self.numbers) > 1 else self._exit_code
        if not self._signalled_at:
            code = self._leaving_code
            why = f"the node has ended, and {_LEAVING_TIMEOUT:g} s later the process had not"
        elif len(self.numbers) > 1:
            why = f"it got {' and '.join(signal.Signals(number).name for number in self.numbers)}, and had not ended"
        else:
            limit = format_duration(self._shutdown_timeout)
            why = f"its shutdown took longer than {limit}: shutdown_grace_period + kill_grace + 5 s"
        with suppress(RuntimeError):  # no thread can be started: the process ends without a message
            saying = threading.Thread(target=self._say, args=(why, code), name="itinerary-last-words", daemon=True)
            saying.start()
            saying.join(_SAYING_TIMEOUT)
        os._exit(code)

    def _say(self, why: str, code: int) -> None:
        """Write what still runs to the log and to standard error. This may block if nothing reads them."""
        running = ["the start of the node"] if self._ending is None else self._ending.still_running()
        if len(running) > _SHOWN_MAX:
            running = [*running[:_SHOWN_MAX], f"{len(running) - _SHOWN_MAX} more"]
        if self._log is not None:
            self._log.error("process.ended_by_force", why=why, still_running=running, exit_code=code)
        said = "; ".join(running) or "nothing that the node knows of"
        sys.stderr.write(f"itinerary: process {os.getpid()} is ended by force: {why}. Still running: {said}\n")
        sys.stderr.flush()
        sys.stdout.flush()


_open_threads: Final[set[SignalThread]] = set()
"""The threads that handle signals: one at most, since only one node of a process can own its signals."""


def _give_back_in_child() -> None:
    for thread in tuple(_open_threads):
        thread.give_back_in_child()
    _open_threads.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_give_back_in_child)
