"""The supervisor: a small process beside a node that ends the node's children when the node dies.

    node ── a pipe ──► supervisor        the pipe closes, or the node's process ends: the supervisor ends the children
      └──── a table (a file) ────┘       the running children: one record each, written by the node

A node that is killed with SIGKILL cannot end its commands and worker processes. Without a supervisor they would
continue to run, while another node or the next start already runs the same work again (`on_orphan = "rerun"`).

The table. The node writes a record before it starts a child. The node adds the child's process group once it is known,
and clears the record when the child has ended. The supervisor reads the table only when the node is dead. The start of
a child therefore costs two small writes and wakes no other process.

Locks. The node holds a lock on byte 0 of the table, and the supervisor one on byte 1, until they end. A new node can
therefore check the owner of a table without pids. The owner is alive if byte 0 is locked. If only byte 1 is locked, the
owner is dead, and its supervisor is ending the children. See `supervision`.

The processes to end. The supervisor ends all processes in a recorded process group or session. With /proc, it also ends
all processes whose environment has the mark of a recorded child. Processes inherit the mark, so it also finds a
grandchild in its own session, and a child that the node was starting when it died. The supervisor does not find a
process that has left the session and cleared its environment, or that runs as another user. The supervisor also does
not find a node that a command has started in its own session: only root can read the environment of a node.

This file runs as a script with only the standard library, because it must start quickly and stay small. For the same
reason it does not log: its only effect is that processes end.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

__all__ = ["AT_ONCE", "MARK", "NODE_BYTE", "RECORD", "SUPERVISOR_BYTE", "end_children", "lock", "main", "running"]

MARK = "_ITINERARY_CHILD"
"""The environment variable of every child: the name of its node's table, and the number of the child."""
RECORD = struct.Struct("=QQ")
"""A child's number, which is never 0, and its process group, which is 0 until it is known."""
AT_ONCE = 1 << 63
"""The flag of a process group that gets SIGKILL at once: that of a worker, which needs no grace period."""
NODE_BYTE, SUPERVISOR_BYTE = 0, 1

_GRACE = 1.0
"""Seconds from SIGTERM to SIGKILL."""
_ROUND = 0.02
_SETTLE, _SETTLE_STARTING = 0.05, 0.5
"""Seconds without any found process before the end is certain; the longer if the node died while starting a child."""
_GIVE_UP_AFTER = 30.0
"""Seconds after which a process that survives SIGKILL is left alone: it hangs in the kernel."""
_LOOK_INTERVAL = 0.2
"""Seconds between two checks of the parent, if the kernel cannot report its end."""
_GROUP, _SESSION = 1, 2
"""The positions in /proc/<pid>/stat, after the state."""


def lock(file: int, byte: int, *, shared: bool = False) -> bool:
    """Lock a byte of a table without waiting. Return False if another process holds the lock."""
    try:
        fcntl.lockf(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    return True


def running(file: int) -> dict[int, int]:
    """Return the process group of each running child, by the child's number."""
    table = os.pread(file, os.fstat(file).st_size, 0)
    whole = table[: len(table) - len(table) % RECORD.size]
    return {number: group for number, group in RECORD.iter_unpack(whole) if number}


def end_children(name: str, children: Mapping[int, int], *, trust_groups: bool = True) -> bool:
    """End these children and everything that they have started: SIGTERM, and SIGKILL after a short grace.

    Args:
        name: The name of their node's table.
        children: The process group of each child, by its number; 0 if it is not known.
        trust_groups: False if the node died long ago, so that another process may have the process group number.

    Returns:
        True if all of them are gone.
    """
    marks = {f"{MARK}={name}.{number}".encode() for number in children}
    groups = {group & ~AT_ONCE for group in children.values()} - {0} if trust_groups else set()
    at_once = {group & ~AT_ONCE for group in children.values() if group & AT_ONCE}
    settle = _SETTLE if all(group & ~AT_ONCE for group in children.values()) else _SETTLE_STARTING
    asked: set[int] = set()
    began_at = clean_since = time.monotonic()
    for group in groups:
        _signal_group(group, signal.SIGKILL if group in at_once else signal.SIGTERM)
    while children:
        found = _find(marks, groups)
        now = time.monotonic()
        if found is None:  # there is no /proc: only groups can be signalled
            found, groups = {}, {group for group in groups if _signal_group(group, 0)}
        else:
            # An empty group is gone, and its number may be reused from then on.
            groups &= set(found.values())
        if found or groups:
            clean_since = now
        elif now - clean_since >= settle:
            break
        if now - began_at >= _GIVE_UP_AFTER:
            return False
        is_late = now - began_at >= _GRACE
        for pid in found if is_late else found.keys() - asked:
            _signal_process(pid, signal.SIGKILL if is_late else signal.SIGTERM, marks, groups)
        asked |= found.keys()
        if is_late:
            for group in groups:
                _signal_group(group, signal.SIGKILL)
        time.sleep(_ROUND)
    return True


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group. Return False if the group is gone."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # no process of the group may be signalled; on macOS, also if only zombies are left
        return sys.platform != "darwin"
    return True


def _signal_process(pid: int, number: int, marks: set[bytes], groups: set[int]) -> None:
    """Send a signal to a process, unless its pid now belongs to another process."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, number)
            return
        handle = os.pidfd_open(pid)
        try:
            if _belongs(pid, marks, groups) is not None:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def _find(marks: set[bytes], groups: set[int]) -> dict[int, int] | None:
    """Return the living processes of the children, with the group or session of each; None without /proc."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):  # noqa: PTH115 - no import of pathlib
            return None  # the /proc of another process namespace
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - no import of pathlib
    except OSError:
        return None
    seen = {pid: _belongs(pid, marks, groups) for pid in pids if pid != os.getpid()}
    return {pid: by for pid, by in seen.items() if by is not None}


def _belongs(pid: int, marks: set[bytes], groups: set[int]) -> int | None:
    """Return the group or session that links a living process to a child; 0 for its mark; None without a link."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - many files, so for speed
            state, *fields = stat.read().rpartition(b")")[2].split()
        if state in b"ZX":
            return None
        for place in (_GROUP, _SESSION):
            if (number := int(fields[place])) in groups:
                return number
        with open(f"/proc/{pid}/environ", "rb") as environment:  # noqa: PTH123 - many files, so for speed
            return 0 if marks.intersection(environment.read().split(b"\0")) else None
    except (OSError, ValueError, IndexError):
        return None  # the process has ended, or belongs to another user


def main(path: str, node: int, pipe: int) -> None:
    """Wait until the node is dead or closes the pipe, end its children, and remove the table."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # a signal to a whole service must not leave its children unsupervised
    file = os.open(path, os.O_RDWR)
    if not lock(file, SUPERVISOR_BYTE):
        return
    is_dead = _death_of(node)
    with suppress(OSError):
        os.write(pipe, b"r")  # ready: children may now be started
    is_dead(pipe)
    if end_children(os.path.basename(path), running(file)):  # noqa: PTH119 - no import of pathlib
        with suppress(OSError):
            os.ftruncate(file, 0)
            os.unlink(path)  # noqa: PTH108 - no import of pathlib


def _death_of(node: int) -> Callable[[int], None]:
    """Begin to watch the parent. Return a function that waits until the parent is dead, or the pipe is closed.

    The pipe alone is not enough: a process that the node has forked without exec holds it open too.
    """
    poll = select.poll()
    try:
        handle = os.pidfd_open(node)
    except (AttributeError, OSError):
        handle = -1
    else:
        poll.register(handle, select.POLLIN)

    def wait(pipe: int) -> None:
        poll.register(pipe, select.POLLIN)
        while os.getppid() == node:
            events = poll.poll(_LOOK_INTERVAL * 1_000 if handle < 0 else None)
            if any(where == handle for where, _ in events) or (events and _is_closed(pipe)):
                return

    return wait


def _is_closed(pipe: int) -> bool:
    try:
        return not os.read(pipe, 1)
    except OSError:
        return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
