"""What the system says about processes, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["children", "forget_peak", "handles", "is_alive", "memory"]


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return _stat(pid)[0] not in "ZX"


def children() -> list[int]:
    """The processes that this one has started and not collected."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _stat(pid)[1] == str(os.getpid())]


def handles() -> int:
    """How many files and pipes this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def memory(line: str) -> int:
    """Of this process, in kB: `VmRSS` now, or `VmHWM` at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(found.split()[1]) for found in lines if found.startswith(f"{line}:"))


def forget_peak() -> None:
    """Begin to measure the peak anew."""
    Path("/proc/self/clear_refs").write_text("5")


def _stat(pid: int) -> list[str]:
    """The state and the parent of a process, and the rest."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]
