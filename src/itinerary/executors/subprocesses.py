"""A child process with everything that it starts: its start, its output and its end.

    spawn (in a helper thread) ──► Child (on the node's loop) ──► ended(status)
                                     ├─ its output, read as it arrives, into a Tail
                                     ├─ its end, by pidfd or a waiting thread
                                     └─ signals to its whole group

The child leads its own session and process group, so a signal also reaches the processes that it forked. A process that
moves into another session is out of reach. The end of the leader counts as the end, because a process that it left
behind may hold the pipe open without limit. Remaining processes of the group are left alone, unless the child was asked
to end. In that case they have time until `kill`, and are then killed.

The leader stays a zombie until its group is handled. Its pid cannot be reused during that time, so no signal can hit
another process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final

import structlog

from itinerary.executors.output import Tail

__all__ = ["Child", "describe_status", "spawn"]

_CHUNK: Final = 65_536
_DRAIN_MAX: Final = 64
"""Chunks to read after the leader has ended: all that a pipe holds, but not the later output of remaining processes."""
_LINGER_FIRST: Final = 0.01
_LINGER_MAX: Final = 0.25
_LINGER_ROUNDS: Final = 120
"""Rounds of about half a minute in all. Remaining processes that ignore SIGTERM are then killed."""

_log: Final = structlog.stdlib.get_logger()


def spawn(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    user: str | int | None = None,
    group: str | int | None = None,
    pass_fds: Sequence[int] = (),
    given: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that leads its own session and writes both output streams into one pipe.

    Args:
        arguments: The program and its arguments.
        env: The environment; None for that of the node.
        cwd: The working directory; None for that of the node.
        user: The user of the process; None for that of the node.
        group: The group of the process; None for that of the node.
        pass_fds: File descriptors that the process inherits.
        given: The standard input, as an unnamed file, so that a process that reads slowly blocks no writer.
    """
    with ExitStack() as opened:
        stdin: int | IO[bytes] = subprocess.DEVNULL
        if given is not None:
            stdin = opened.enter_context(tempfile.TemporaryFile())
            stdin.write(given.encode("utf-8", "surrogateescape"))
            stdin.seek(0)
        process = subprocess.Popen(  # noqa: S603 - an argument list, checked where the definition was read
            arguments,
            env=env,
            cwd=cwd,
            user=user,
            group=group,
            extra_groups=None if user is None and group is None else (),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    assert process.stdout is not None, "it was asked for"
    os.set_blocking(process.stdout.fileno(), False)
    return process


def describe_status(status: int | None) -> str:
    """Describe how a process ended. The status is None if other code has collected it."""
    if status is None:
        return "ended, but something else in this program has collected its exit status"
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class Child:
    """A spawned process. `ended` is called once, with the exit status, which is negative for a signal."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        process: subprocess.Popen[bytes],
        ended: Callable[[int | None], None],
    ) -> None:
        assert process.stdout is not None, "spawn makes one"
        self.output = Tail()
        self._loop = loop
        self._process = process
        self._pipe = process.stdout
        self._ended = ended
        self._status: int | None = None
        self._is_gone = False
        self._is_over = False
        self._was_asked = False
        self._was_killed = False
        loop.add_reader(self._pipe.fileno(), self._read)
        self._watch()

    @property
    def pid(self) -> int:
        return self._process.pid

    def terminate(self) -> None:
        """Ask the process group to end. Processes that ignore this have time until `kill`."""
        if not self._was_asked:
            self._was_asked = True
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group."""
        self._was_killed = True
        self._signal(signal.SIGKILL)
        if self._is_gone:
            self._finish()

    def read_now(self) -> None:
        """Read the output that has been written up to now."""
        for _ in range(_DRAIN_MAX):
            if not self._read():
                return

    def _signal(self, number: signal.Signals) -> None:
        if self._is_over:
            return
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass  # the whole group is gone
        except PermissionError:
            _log.warning("process.cannot_be_signalled", pid=self.pid, signal=number.name, note="it changed its user")

    def _read(self) -> bool:
        """Read one chunk. Return True if there may be more."""
        if self._pipe.closed:
            return False
        try:
            chunk = os.read(self._pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        if chunk:
            self.output.write(chunk)
            return True
        self._close_pipe()
        return False

    def _close_pipe(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()

    # -- end of the process --------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            try:
                handle = os.pidfd_open(self.pid)
            except ProcessLookupError:
                self._loop.call_soon(self._gone)  # it has ended, and other code in this program has collected it
                return
            self._loop.add_reader(handle, self._gone_by_handle, handle)
        else:
            threading.Thread(target=self._wait, name="itinerary-wait", daemon=True).start()

    def _wait(self) -> None:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with suppress(RuntimeError):  # the loop was closed, and nothing waits for the result
            self._loop.call_soon_threadsafe(self._gone)

    def _gone_by_handle(self, handle: int) -> None:
        self._loop.remove_reader(handle)
        os.close(handle)
        self._gone()

    def _gone(self) -> None:
        """Handle the end of the leader, which is now a zombie."""
        self._is_gone = True
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            self._status = None
        else:
            assert found is not None, "it has ended"
            self._status = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        if self._was_asked and not self._was_killed:
            self._linger(_LINGER_FIRST, _LINGER_ROUNDS)
        else:
            self._finish()

    def _linger(self, wait: float, rounds: int) -> None:
        """Wait for the rest of the group after the leader has ended on request."""
        if self._is_over:
            return
        # In a thread, because this is slow on a machine with thousands of processes.
        looked = self._loop.run_in_executor(None, _others_in_group, self.pid)
        looked.add_done_callback(lambda _: self._looked(looked, wait, rounds))

    def _looked(self, looked: asyncio.Future[bool], wait: float, rounds: int) -> None:
        if not looked.cancelled() and looked.result() and rounds:
            self._loop.call_later(wait, self._linger, min(2 * wait, _LINGER_MAX), rounds - 1)
        else:
            self._finish()

    def _finish(self) -> None:
        if self._is_over:
            return
        if self._was_asked or self._was_killed:
            self._signal(signal.SIGKILL)
        self._is_over = True
        self.read_now()
        self._close_pipe()
        self._process.wait()  # returns at once: the process is a zombie, or was collected by other code
        self._ended(self._status)


def _others_in_group(leader: int) -> bool:
    """True if a process of a dead leader's group is alive. Without /proc, always False."""
    proc = Path("/proc")
    for entry in proc.iterdir() if proc.is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text("ascii", "replace")
        except OSError:
            continue  # the process has just ended
        state, _, group, *_ = stat.rpartition(")")[2].split()
        if int(group) == leader and state not in "ZX":
            return True
    return False
