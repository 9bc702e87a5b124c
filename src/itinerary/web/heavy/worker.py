"""The main function of a worker process: runs heavy works for the web server that started it.

    main thread      receives requests, runs them, answers
    another thread   waits for the end of the socket, and ends the process when the node has exited, even by SIGKILL

The process has a lower priority than the node. Its memory limit counts from the size after the imports, so
`web_work_megabytes` is what a request may use. The timeline is kept for the next request, which reads only new entries.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeVar, cast

import msgspec

from itinerary.audit import AuditProgress
from itinerary.errors import ItineraryError
from itinerary.ports import Store
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import packaged_zone_data
from itinerary.stores.urls import open_store
from itinerary.web.heavy.bounds import IN_WORKER
from itinerary.web.heavy.perform import Environment, perform
from itinerary.web.heavy.works import (
    FRAME_MAX,
    AnyWork,
    Ask,
    Done,
    FromWorker,
    Ready,
    Setup,
    WorkFailure,
    WorkProgress,
    framed,
)
from itinerary.web.problems import RequestRefused

__all__ = ["BOOTSTRAP", "main"]

BOOTSTRAP: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from itinerary.web.heavy.worker import main; main()"
)
"""The program of a new interpreter. Its argument is the module path of the node; its socket is standard input."""
_MEGABYTE: Final = 1024 * 1024
_NICENESS: Final = 10
_STACK: Final = 2 * _MEGABYTE
"""The stack size of a thread, which counts against the memory limit."""
_NO_THREAD: Final = "can't start new thread"
"""The message of Python's error if there is no memory for the stack of a thread."""
_SPENT_SHARE: Final = 4
"""A worker that holds more than this fraction (1/N) of its memory limit is not used again."""

T = TypeVar("T")


class _ReadOnly:
    """A store that can only be read."""

    def __init__(self, store: Store) -> None:
        self.read, self.url = store.read, store.url


def main() -> None:
    """Serve requests until the node exits."""
    connection = socket.socket(fileno=os.dup(0))
    os.nice(_NICENESS)
    setup = _received(connection, Setup)
    if setup is None:
        return
    packaged_zone_data()
    threading.stack_size(_STACK)
    base = _address_space()
    if sys.platform == "linux":  # other systems do not enforce this limit
        limit, hard = base + setup.megabytes * _MEGABYTE, resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or limit < hard:  # otherwise the node's own limit is stricter
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    requests: SimpleQueue[Ask] = SimpleQueue()
    connection.sendall(framed(Ready(cpu=time.process_time())))
    threading.Thread(target=_listen, args=(connection, requests), name="itinerary-node", daemon=True).start()
    with asyncio.Runner() as runner:
        worker = _Worker(setup, connection, base)
        while True:
            runner.run(worker.serve(requests.get().work))


def _listen(connection: socket.socket, requests: SimpleQueue[Ask]) -> None:
    try:
        while (request := _received(connection, Ask)) is not None:
            requests.put(request)
    finally:
        os._exit(1)


class _Worker:
    """The works on one store, which is opened at the first use."""

    def __init__(self, setup: Setup, connection: socket.socket, base: int) -> None:
        self._setup, self._connection, self._base = setup, connection, base
        self._view: StoreView | None = None

    async def serve(self, work: AnyWork) -> None:
        """Run one work and send the result."""
        try:
            answer = await perform(work, await self._environment())
        except RequestRefused as refused:
            self._fail("refused", refused.detail, refused.title, refused.status)
        except ItineraryError as error:
            self._fail(type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - the node logs it
            is_memory = isinstance(error, MemoryError) or _NO_THREAD in str(error)
            self._fail("memory" if is_memory else "bug", traceback.format_exc())
        else:
            held = _address_space() - self._base
            is_spent = held > self._setup.megabytes * _MEGABYTE // _SPENT_SHARE
            self._send(lambda cpu: Done(cpu=cpu, answer=msgspec.Raw(answer), is_spent=is_spent))

    async def _environment(self) -> Environment:
        if self._view is None:
            store = open_store(self._setup.store)
            try:
                await store.open()
            except BaseException:
                await store.close()
                raise
            self._view = StoreView(cast("Store", _ReadOnly(store)))
        await self._view.read()
        return Environment(
            view=self._view,
            settings=self._setup.settings,
            zone_data=packaged_zone_data(),
            bounds=IN_WORKER,
            handle=self._handle,
        )

    def _handle(self, far: AuditProgress) -> None:
        self._send(lambda cpu: WorkProgress(cpu=cpu, far=far))

    def _fail(self, kind: str, detail: str, title: str = "", status: int = 0) -> None:
        self._send(lambda cpu: WorkFailure(cpu=cpu, kind=kind, detail=detail, title=title, status=status))

    def _send(self, message: Callable[[float], FromWorker]) -> None:
        self._connection.sendall(framed(message(time.process_time())))


def _received(connection: socket.socket, kind: type[T]) -> T | None:
    """Receive one message; None at the end of the socket."""
    head = _exactly(connection, 4)
    body = None if head is None else _exactly(connection, int.from_bytes(head, "big"))
    return None if body is None else msgspec.json.decode(body, type=kind)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    assert size <= FRAME_MAX, "the node sends no longer frames"
    found = bytearray()
    while len(found) < size:
        chunk: Any = connection.recv(size - len(found))
        if not chunk:
            return None
        found += chunk
    return bytes(found)


def _address_space() -> int:
    """Return the size of this process's address space in bytes; 0 where the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    except OSError:
        return 0
    return pages * resource.getpagesize()
