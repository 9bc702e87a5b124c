"""Processes that are killed, a few hundred of them: each a real one, born in milliseconds.

    tests ──► nursery, which has imported everything and opened nothing ──► fork for each life

A store that was open when its process was forked cannot be used in the child, and a process with threads cannot be
forked safely; pytest's may have both. So a process of its own does the forking. It is told which story the child shall
live (see `lives`), and hands it one end of a socket.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.integration.stores.line import Line, Watched

__all__ = ["Life", "Nursery", "environment", "nursery"]

_IMPORTED_ONCE: Final = (
    "tests.integration.stores.lives",
    "itinerary.stores.sqlite",
    "itinerary.stores.lmdb",
    "itinerary.stores.postgres",
)
"""What takes a while to import, so that no life has to."""


class Life(Watched):
    """A process that lives a story, as the test sees it."""

    def __init__(self, end: socket.socket, pid: int, nursery: Nursery) -> None:
        super().__init__(end)
        self.pid = pid
        self._nursery = nursery

    def kill(self) -> None:
        """`kill -9`, and take in what it still had said. When this returns it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Wait for its end; how it ended."""
        self.listen_to_the_end()
        self.close()
        status = self._nursery.reap(self.pid)
        assert not (wrong := [what for what in self.words if "wrong" in what]), wrong[0]["wrong"]
        return status


class Nursery:
    """Where lives begin."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def born(self, story: str, url: str, **values: Any) -> Life:
        """A new process that lives this story on that store."""
        ours, its = socket.socketpair()
        with its:
            request = json.dumps({"story": story, "url": url, "values": values}).encode()
            socket.send_fds(self._control, [request], [its.fileno()])
        return Life(ours, int(self._control.recv(100)), self)

    def reap(self, pid: int) -> int:
        self._control.send(json.dumps({"reap": pid}).encode())
        return int(self._control.recv(100))


def environment() -> dict[str, str]:
    """What a Python process needs to find what this one finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery for as long as this lasts."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with its:
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tests.integration.stores.nursery", str(its.fileno())],
                pass_fds=[its.fileno()],
                env=environment(),
            )
        yield Nursery(ours)
    assert process.wait(60) == 0


# -- in the nursery's process ----------------------------------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    for name in _IMPORTED_ONCE:
        importlib.import_module(name)
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1 << 16, 1)
        if not message:
            return
        request = json.loads(message)
        if "reap" in request:
            _, status = os.waitpid(request["reap"], 0)
            control.send(str(status).encode())
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _live(socket.socket(fileno=handles[0]), request)
        os.close(handles[0])
        control.send(str(pid).encode())


def _live(end: socket.socket, request: Any) -> None:
    from tests.integration.stores import lives  # noqa: PLC0415

    line = Line(end, retries=request["values"].pop("retries", False))
    status = 1
    try:
        story = lives.STORIES[request["story"]](request["url"], line, **request["values"])
        asyncio.run(story)
        status = 0
    except BaseException:  # noqa: BLE001 - the process ends here, and the test has to hear why
        line.say(wrong=traceback.format_exc())
    finally:
        end.close()
        os._exit(status)


if __name__ == "__main__":
    handle = socket.socket(fileno=int(sys.argv[1]))
    if len(sys.argv) > 2:
        _live(handle, json.loads(sys.argv[2]))  # one life only, in a process that something else watches
    _serve(handle)
