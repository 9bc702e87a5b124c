"""A worker process: calls one function after the other, for the pool that it is connected to.

    main thread      runs the functions, because signals arrive there
    another thread   reads requests; when the pool is gone, even by SIGKILL, it ends the whole process group

SIGTERM asks the running function to end: TaskCancelled is raised in a plain function, and a coroutine is cancelled. The
standard output and error of a function are a pipe to the pool. An exception of a function, including `SystemExit`, is
an answer. The pool detects a function that ends the whole process.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final, assert_never

from itinerary.errors import ConfigError
from itinerary.executors.cancellation import CancelFlags, TaskCancelled
from itinerary.executors.context import ExecutionContext
from itinerary.executors.environment import variables_set
from itinerary.executors.outcomes import could_not_begin, raised, returned
from itinerary.executors.registry import Registry, split_name
from itinerary.executors.resolve import MAIN, MAIN_HERE
from itinerary.executors.task_function import Function
from itinerary.executors.worker_protocol import Answer, AnswerStatus, Called, CallRequest, receive, send
from itinerary.model.attempts import Failed, Outcome, Stopped, Succeeded

__all__ = ["BOOTSTRAP", "FunctionRunner", "flush", "main"]

BOOTSTRAP: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from itinerary.executors.worker import main; main(int(sys.argv[1]))"
)
"""The code for a new interpreter. Its arguments are the file descriptor of its socket and the module path of the
pool."""


def main(handle: int) -> None:
    """Serve requests until the pool is gone."""
    connection = socket.socket(fileno=handle)
    connection.set_inheritable(False)
    sys.argv[:] = [""]
    requests: SimpleQueue[CallRequest] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, requests), name="itinerary-pool", daemon=True).start()
    desk = FunctionRunner()
    home = os.getcwd()  # noqa: PTH109 - for os.chdir
    while True:
        signal.signal(signal.SIGTERM, desk.terminated)  # a function may have set another handler
        outcome = desk.run(desk.next(requests), lambda: send(connection, Called()))
        flush()
        with suppress(OSError):  # the directory may be gone
            os.chdir(home)
        send(connection, _answer(outcome))


def _listen(connection: socket.socket, requests: SimpleQueue[CallRequest]) -> None:
    try:
        while (request := receive(connection)) is not None:
            requests.put(request)
    except OSError:
        pass  # the running function has closed the connection
    finally:
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)


class FunctionRunner:
    """The runner of one function at a time, with the means to cancel it."""

    def __init__(self) -> None:
        self._registry = Registry()
        self._allowed: tuple[str, ...] = ()
        self._flags: CancelFlags | None = None
        self._cancel: Callable[[], None] | None = None
        self._has_called = False
        self._is_waiting = False
        self._is_ending = False

    def next(self, requests: SimpleQueue[CallRequest]) -> CallRequest:
        """Wait for the next request. A SIGTERM that has no function to end ends the process here."""
        self._is_waiting = True
        if self._is_ending:
            sys.exit(0)
        request = requests.get()
        self._is_waiting = False
        return request

    def terminated(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGTERM."""
        if self._flags is None:
            self._is_ending = True
            if self._is_waiting:
                sys.exit(0)
            return  # the function has just ended, and its answer is still to be sent
        if self._flags.is_stop_asked:
            return
        self._flags.is_stop_asked = True
        if self._cancel is None:
            raise TaskCancelled("asked to end by SIGTERM")
        self._cancel()

    def run(self, request: CallRequest, called: Callable[[], None] = lambda: None) -> Outcome:
        """Run a function. `called` is called just before the function."""
        flags = CancelFlags()
        self._has_called = False
        try:
            self._flags = flags
            return Context().run(self._called, request, flags, called)
        except BaseException as error:  # noqa: BLE001 - an attempt ends here
            outcome = raised(error, flags)
            return Stopped(was_called=self._has_called) if isinstance(outcome, Stopped) else outcome
        finally:
            self._flags = self._cancel = None

    def _called(self, request: CallRequest, flags: CancelFlags, called: Callable[[], None]) -> Outcome:
        try:
            with variables_set(request.variables):
                function = self._function(request)
        except TaskCancelled:
            raise
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            return could_not_begin(error)
        arguments = (ExecutionContext(request.key, request.facts, flags),) if function.takes_context else ()
        called()
        if function.is_coroutine:
            return returned(asyncio.run(self._awaited(function, arguments)), request.facts)
        self._has_called = True
        return returned(function.call(*arguments), request.facts)

    async def _awaited(self, function: Function, arguments: tuple[Any, ...]) -> Any:
        loop = asyncio.get_running_loop()
        task = loop.create_task(function.call(*arguments))

        def cancel() -> None:
            loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        self._has_called = True
        try:
            return await task
        finally:
            self._cancel = None

    def _function(self, request: CallRequest) -> Function:
        if request.allowed != self._allowed:
            self._registry, self._allowed = Registry(request.allowed), request.allowed
        module, _ = split_name(request.name)
        if (path := request.paths.get(module)) is not None:
            _load(module, path)
        return self._registry.find(request.name)


def _load(module: str, path: str) -> None:
    """Load a script under its module name, once."""
    name = MAIN_HERE if module == MAIN else module
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"python: {module} cannot be loaded from {path}: it is no Python file")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[name]
        raise


def _answer(outcome: Outcome) -> Answer:
    match outcome:
        case Succeeded(result=result):
            return Answer(AnswerStatus.SUCCEEDED, result)
        case Failed(error=error, names=names):
            return Answer(AnswerStatus.FAILED, error=error, names=names)
        case Stopped(was_called=was_called):
            return Answer(AnswerStatus.STOPPED, was_called=was_called)
        case _:
            assert_never(outcome)


def flush() -> None:
    """Write all printed text into the pipe before the answer is sent. A function may have replaced the streams."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
