"""Close the memory of a node to other processes of its user (Linux: `PR_SET_DUMPABLE`).

A node has the password of its store and the values of its secrets in its memory and in its environment. On Linux every
process of the same user may read both: through /proc/PID/environ and /proc/PID/mem, or as a debugger. The commands of
tasks are such processes. So a node asks the kernel to refuse that.

The cost: a debugger or a profiler (gdb, strace, py-spy) can attach only as root, and a node that crashes leaves no core
dump. The setting `allow_debugger` turns the protection off. The processes that a node starts are not protected: the
kernel resets the protection at their start, and they have no secret of the node. Root can always read everything.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

__all__ = ["close_memory"]

_PR_SET_DUMPABLE = 4


def close_memory(log: Any) -> None:
    """Close the memory of this process to other processes of its user. Does nothing on other systems than Linux."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        why = os.strerror(ctypes.get_errno())
        log.warning("node.memory_open", error=why, hint="other processes of this user can read the node's secrets")
