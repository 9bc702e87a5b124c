"""This machine: what a node publishes about its process, and the proof that the process of another node is gone.

A killed node cannot report its end, so other nodes detect its death by missing heartbeats, after three intervals. A
node that starts on the same machine can ask the kernel instead. The proof needs all of these facts:

    the same host name and the same boot id        one kernel, started once; a clone or a reboot has another boot id
    the same pid and time namespace                pids and start times mean the same; containers differ here
    no process of that pid, or another process     pids are reused, so the start time of the process is compared

A missing, unreadable or different value is no proof. The heartbeats then decide, as they do between machines.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Final

import msgspec

__all__ = ["is_gone", "this_process"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES: Final = ("pid", "time")
_DEAD_STATES: Final = frozenset({"Z", "X", "x"})
"""The states of a process that has ended, but that its parent has not waited for yet."""
_STATE, _START_TIME = 0, 19
"""Positions in /proc/PID/stat after the program name, which may contain any character."""


class _Process(msgspec.Struct):
    """The published description of a node's process."""

    host: str | None = None
    process: int | None = None
    process_started: int | None = None
    boot: str | None = None
    namespaces: dict[str, str] | None = None


def this_process() -> dict[str, Any]:
    """Describe this process, so that a later process on this machine can check whether it is gone.

    Returns:
        Host name and pid. If the kernel reports them, also its boot id, the namespaces of pids and times, and the start
        of the process, in clock ticks since the boot.
    """
    about: dict[str, Any] = {"host": socket.gethostname(), "process": os.getpid()}
    boot, namespaces, stat = _boot_id(), _namespaces(), _stat(os.getpid())
    if boot is not None and namespaces is not None and stat is not None:
        about |= {"boot": boot, "namespaces": namespaces, "process_started": stat[1]}
    return about


def is_gone(about: str) -> bool:
    """True if the process of a node provably no longer exists.

    Args:
        about: The description that the node has published, as JSON.
    """
    try:
        said = msgspec.json.decode(about, type=_Process)
    except msgspec.MsgspecError:
        return False
    if said.process is None or said.process_started is None or said.boot is None or not said.namespaces:
        return False
    if (said.host, said.boot, said.namespaces) != (socket.gethostname(), _boot_id(), _namespaces()):
        return False
    if said.process == os.getpid():
        started = _stat(os.getpid())
        return started is not None and started[1] != said.process_started
    return not _exists(said.process, said.process_started)


def _exists(process: int, started: int) -> bool:
    """True unless a process is provably gone: no such pid, a zombie, or another process under its pid."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError, ValueError):
        pass  # for example, it belongs to another user: it exists
    stat = _stat(process)
    return stat is None or (stat[1] == started and stat[0] not in _DEAD_STATES)


def _stat(process: int) -> tuple[str, int] | None:
    """Return the state of a process and its start in ticks since the boot; None if the kernel does not report them."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
        fields = text.rpartition(")")[2].split()
        return fields[_STATE], int(fields[_START_TIME])
    except (OSError, ValueError, IndexError):
        return None


def _boot_id() -> str | None:
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def _namespaces() -> dict[str, str] | None:
    """Return the namespaces that give pids and times their meaning; None if the kernel does not report them.

    Old kernels have no time namespace.
    """
    found = {}
    for name in _NAMESPACES:
        try:
            found[name] = str(Path(f"/proc/self/ns/{name}").readlink())
        except OSError:
            found[name] = ""
    return found if found["pid"] else None
