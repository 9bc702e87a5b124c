"""Process 1 of a container: reaps orphaned processes, and passes signals on.

    process 1 (this script)  ── SIGTERM, SIGHUP, … ──►  the node, which has become its child
         └── waitpid(-1): reaps every process whose parent has died

In a container the first process inherits every process whose parent has died, and must reap it, or it remains a zombie.
A node cannot do that itself. It cannot distinguish an inherited process from one that a task has started with
`subprocess` and waits for, which it must not reap. So if `itinerary up` is process 1, it forks. The child continues as
the node, and process 1 becomes this small script.

Signals are blocked before the fork and remain blocked in process 1, which takes them one by one, so none is lost. A
signal of the terminal (Ctrl-C) reaches the node directly, since both are in the foreground, and is not passed on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

__all__ = ["leave_process_one"]

_TERMINAL = 0x80
"""The `si_code` of a signal that the kernel has sent, for example for Ctrl-C."""
_NOT_PASSED_ON = {signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


def leave_process_one() -> None:
    """If this is process 1, continue in a child. Call this before the program's own code is loaded.

    A fork does not keep threads. The threads of numpy, which exist already, are prepared for a fork.
    """
    if os.getpid() != 1 or not hasattr(signal, "sigwaitinfo") or threading.active_count() != 1:
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    # All processes of the user can read the environment of process 1, so the node's secrets must not stay there.
    linked = {name: value for name, value in os.environ.items() if name.startswith("LD_")}
    try:
        os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, str(child)], linked)  # noqa: S606 - our own
    except OSError:
        os._exit(_serve(child))  # no interpreter can be started: do it here


def _serve(child: int) -> int:
    """Reap processes and pass on signals until the child has ended. Return its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        found = signal.sigwaitinfo(signal.valid_signals())
        if found.si_signo == signal.SIGCHLD:
            status = _collect(child)
            if status is not None:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif found.si_signo not in _NOT_PASSED_ON and found.si_code != _TERMINAL:
            os.kill(child, found.si_signo)


def _collect(child: int) -> int | None:
    """Reap all ended processes. Return the status of the child, if it is among them."""
    status = None
    while True:
        try:
            pid, ended_with = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = ended_with


if __name__ == "__main__":
    sys.exit(_serve(int(sys.argv[1])))
