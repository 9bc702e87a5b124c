"""A life under `strace`, which makes its n-th write to the disk fail, or its last.

    strace -f -e inject=pwrite64,fdatasync:<fault>:when=<n>

Calls are counted for each thread, and the store's files are written by one of them at a time.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.integration.stores.line import Watched
from tests.integration.stores.nursery import environment

__all__ = ["lived_under"]


def lived_under(fault: str, story: str, url: str, *, calls: str, **values: Any) -> Watched:
    """Live a story under this fault to its end, and return what it said."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed here, and without it no single write can be made to fail")
    ours, its = socket.socketpair()
    with its:
        request = json.dumps({"story": story, "url": url, "values": values})
        process = subprocess.Popen(  # noqa: S603
            [
                *(strace, "-f", "-qq", "-o", "/dev/null"),
                *("-e", f"trace={calls}", "-e", "signal=none", "-e", f"inject={calls}:{fault}"),
                *(sys.executable, "-m", "tests.integration.stores.nursery", str(its.fileno()), request),
            ],
            pass_fds=[its.fileno()],
            env=environment(),
        )
    life = Watched(ours)
    life.listen_to_the_end()
    life.close()
    process.wait(60)
    return life
