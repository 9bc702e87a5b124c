"""Functions in worker processes: for long computations, code that may crash, or code that must be killable.

    begin ──► an idle worker, or a new one; with `workers_max` workers the attempt waits in the queue
    stop  ──► SIGTERM to the worker's process group       kill ──► SIGKILL to the worker's process group

A worker is a new interpreter, never a fork: a copy of a process with threads, an event loop and an open database does
not work. A worker has the module path of this process, and imports functions by name. A worker that died, or received a
signal, is replaced. The others are used again. If a worker died before it called a function, another worker gets the
attempt. All workers end together with this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final, assert_never

import structlog

from itinerary.daemon_pool import DaemonPool
from itinerary.errors import ConfigError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.definitions import read_python
from itinerary.executors.environment import import_variables, inherited_variables
from itinerary.executors.outcomes import could_not_begin
from itinerary.executors.output import Tail, when_text_is_made
from itinerary.executors.registry import Registry
from itinerary.executors.subprocesses import Child, describe_status
from itinerary.executors.supervision import Supervision
from itinerary.executors.worker import BOOTSTRAP
from itinerary.executors.worker_protocol import Answer, AnswerStatus, Called, CallRequest, WorkerConnection
from itinerary.model.attempts import Assignment, AttemptKey, Failed, Outcome, Stopped, Succeeded
from itinerary.model.text import shown

__all__ = ["FORCE_TIMEOUT", "ProcessExecutor", "main_module_path"]

FORCE_TIMEOUT: Final = 5.0
"""Seconds to wait for a process to die after SIGKILL before it is abandoned. Such a process hangs in the kernel."""

_SPAWNING_THREADS: Final = 2

_log: Final = structlog.stdlib.get_logger()


class _Running(InFlight):
    """An attempt. Its worker is set once one was free."""

    __slots__ = ("is_answered", "is_second_worker", "name", "worker")

    def __init__(self, assignment: Assignment, name: str) -> None:
        super().__init__(assignment)
        self.name = name
        self.worker: _Worker | None = None
        self.is_answered = False
        """True if the worker has answered or is gone, so there is nothing to stop."""
        self.is_second_worker = False
        """True if a worker died before it called the function, so that the attempt got another one."""


class _Worker:
    """A worker process, and its current attempt."""

    def __init__(self, pool: ProcessExecutor, process: subprocess.Popen[bytes], connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self.attempt: _Running | None = None
        self.was_signalled = False
        self.line = WorkerConnection(loop, connection, lambda answer: pool._answered(self, answer), self.end)  # noqa: SLF001 - one class in two halves
        self.child = Child(loop, process, lambda status: pool._exited(self, status))  # noqa: SLF001 - one class in two halves

    def end(self) -> None:
        """Kill the process, and everything that its functions left running."""
        self.was_signalled = True
        self.child.kill()


class ProcessExecutor(BaseExecutor[_Running]):
    """The executor of functions in at most `workers_max` processes, by default one per core. Other attempts queue.

    `paths` are modules that are files: a module that was given by its path, and the program's main module. Another
    process cannot import these by name. `supervision` ends the workers together with their node. The executors of a
    node share it.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        workers_max: int | None = None,
        paths: Mapping[str, str] | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        super().__init__()
        self._supervision = Supervision() if supervision is None else supervision
        self._workers_max = max(os.cpu_count() or 1, 2) if workers_max is None else workers_max
        if self._workers_max < 1:
            raise ConfigError(f"workers_max: {shown(workers_max)} is too few; at least 1 is needed")
        self._registry = registry
        self._paths = main_module_path() if paths is None else dict(paths)
        self._variables = import_variables(os.environ)
        self._waiting: deque[_Running] = deque()
        self._idle: list[_Worker] = []
        self._workers: dict[_Worker, None] = {}
        self._being_born = 0

    async def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spawners = DaemonPool("itinerary-spawn", _SPAWNING_THREADS)
        self._changed = asyncio.Event()
        self._supervision.open()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The pids of the current workers."""
        return tuple(worker.child.pid for worker in self._workers)

    # -- an attempt and its worker -------------------------------------------------------------------------------------

    def _accept(self, assignment: Assignment) -> _Running:
        return _Running(assignment, read_python(assignment.run, "process", self._registry).name)

    def _launch(self, attempt: _Running) -> None:
        if self._idle:
            self._give(self._idle.pop(), attempt)
            return
        self._waiting.append(attempt)
        self._bear()

    def _bear(self) -> None:
        """Start a worker, if an attempt waits for which no worker is being started."""
        there = len(self._workers) + self._being_born
        if there < self._workers_max and len(self._waiting) > self._being_born and not self._is_closed:
            self._being_born += 1
            self._spawners.submit(self._spawn)

    def _give(self, worker: _Worker, attempt: _Running) -> None:
        worker.child.read_now()  # discards the output of a process that an earlier function left behind
        worker.child.output = Tail()
        worker.attempt, attempt.worker = attempt, worker
        assignment = attempt.assignment
        allowed, paths, variables = self._registry.allowed, self._paths, self._variables
        try:
            worker.line.send(CallRequest(attempt.name, assignment.key, assignment.facts, allowed, paths, variables))
        except (TypeError, ValueError, OverflowError) as error:
            worker.attempt = attempt.worker = None
            self._end(assignment.key, could_not_begin(error))
            self._rest(worker)

    def _rest(self, worker: _Worker) -> None:
        """Give a free worker the next attempt, or make it idle."""
        while self._waiting:
            attempt = self._waiting.popleft()
            if attempt.key in self._in_flight:
                self._give(worker, attempt)
                return
        self._idle.append(worker)

    def _stop(self, attempt: _Running) -> None:
        if attempt.is_stop_asked or attempt.is_answered:
            return
        attempt.is_stop_asked = True
        if attempt.worker is None:
            self._leave_the_line(attempt)
        else:
            attempt.worker.was_signalled = True
            attempt.worker.child.terminate()

    def _kill(self, attempt: _Running) -> None:
        if attempt.is_answered:
            return  # only its output text is still being made
        attempt.is_stop_asked = True
        if attempt.worker is None:
            self._leave_the_line(attempt)
        elif not attempt.is_given_up:
            attempt.is_given_up = True
            attempt.worker.end()
            self._loop.call_later(FORCE_TIMEOUT, self._give_up, attempt.key)

    def _leave_the_line(self, attempt: _Running) -> None:
        self._waiting.remove(attempt)
        self._end(attempt.key, Stopped(was_called=False))

    def _give_up(self, key: AttemptKey) -> None:
        self._end(key, Stopped(abandoned=True))

    # -- events of workers ---------------------------------------------------------------------------------------------

    def _answered(self, worker: _Worker, answer: Answer | Called) -> None:
        if isinstance(answer, Called):
            if worker.attempt is not None:
                worker.attempt.was_called = True
            return
        attempt, worker.attempt = worker.attempt, None
        if attempt is None:
            worker.end()  # an answer without a request
            return
        worker.child.read_now()
        attempt.worker, attempt.is_answered = None, True  # the worker may get another attempt before this one ends
        was_asked = attempt.is_stop_asked
        text, made = worker.child.output, lambda output: self._ended(attempt, answer, output, was_asked=was_asked)
        when_text_is_made(text, {}, made)
        if worker.was_signalled or answer.ending is AnswerStatus.STOPPED:
            worker.end()  # the signal may have interrupted it anywhere
        else:
            self._rest(worker)

    def _ended(self, attempt: _Running, answer: Answer, output: str | None, *, was_asked: bool) -> None:
        outcome = _outcome(answer, output)
        if isinstance(outcome, Stopped):
            outcome = (
                Stopped(output=output, was_called=attempt.was_called and answer.was_called)
                if was_asked
                else Failed("another process sent SIGTERM to its worker process", output=output)
            )
        self._over(attempt, outcome)

    def _exited(self, worker: _Worker, status: int | None) -> None:
        self._supervision.forget(worker.child.pid)
        worker.line.read_now()  # the worker may have answered just before its end
        worker.line.close()
        self._workers.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        attempt, worker.attempt = worker.attempt, None
        if attempt is not None and self._may_move(attempt):
            attempt.worker, attempt.is_second_worker = None, True
            self._waiting.appendleft(attempt)
        elif attempt is not None:
            attempt.worker, attempt.is_answered = None, True
            was_asked = attempt.is_stop_asked
            text, made = worker.child.output, lambda output: self._died(attempt, status, output, was_asked=was_asked)
            when_text_is_made(text, {}, made)
        self._bear()
        self._changed.set()

    def _may_move(self, attempt: _Running) -> bool:
        """True if an attempt may get another worker: this one was dead or died before it called the function.

        Only once, because the import of the function may be what ends a worker.
        """
        has_another = not attempt.is_second_worker and not self._is_closed
        return has_another and not attempt.was_called and not attempt.is_stop_asked

    def _died(self, attempt: _Running, status: int | None, output: str | None, *, was_asked: bool) -> None:
        if was_asked:
            self._over(attempt, Stopped(output=output, was_called=attempt.was_called))
        else:
            self._over(attempt, Failed(f"its worker process died: {describe_status(status)}", output=output))

    def _over(self, attempt: _Running, outcome: Outcome) -> None:
        if not self._end(attempt.key, outcome):
            self._came_back(attempt.assignment, outcome)

    # -- start and end of workers --------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        """Start a worker process, in a helper thread."""
        ours, its = socket.socketpair()
        path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109 - text is needed
        born: subprocess.Popen[bytes] | Exception
        try:
            with its:
                arguments = [sys.executable, "-u", "-P", "-c", BOOTSTRAP, str(its.fileno()), json.dumps(path)]
                env = inherited_variables(os.environ)
                born = self._supervision.spawn(arguments, env=env, at_once=True, pass_fds=[its.fileno()])
        except Exception as error:  # noqa: BLE001 - becomes the end of an attempt
            ours.close()
            born = error
        try:
            self._loop.call_soon_threadsafe(self._born, born, ours)
        except RuntimeError:  # the loop is closed: a worker without its pool ends by itself
            ours.close()

    def _born(self, process: subprocess.Popen[bytes] | Exception, connection: socket.socket) -> None:
        self._being_born -= 1
        self._changed.set()
        if isinstance(process, Exception):
            self._born_dead(process, connection)
            return
        try:
            worker = _Worker(self, process, connection)
        except OSError as error:  # for example, no more file descriptors: a worker without its pool ends by itself
            process.kill()
            process.communicate()
            self._supervision.forget(process.pid)
            self._born_dead(error, connection)
            return
        self._workers[worker] = None
        if self._is_closed:
            worker.end()
            return
        self._rest(worker)
        self._bear()

    def _born_dead(self, error: Exception, connection: socket.socket) -> None:
        connection.close()
        if self._waiting:
            self._end(self._waiting.popleft().key, could_not_begin(error))
        self._bear()

    async def _shut_down(self) -> None:
        self.kill(list(self._in_flight))
        for worker in list(self._workers):
            worker.end()
        try:
            async with asyncio.timeout(2 * FORCE_TIMEOUT):
                while self._workers or self._being_born:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            _log.error("worker_process.left_behind", pids=self.worker_pids, note="SIGKILL did not end them")
        self._spawners.shutdown(wait=False)
        await asyncio.to_thread(self._supervision.close)


def main_module_path() -> dict[str, str]:
    """Return the path of the program's main module, if it is a file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return {} if path is None else {"__main__": str(Path(path).resolve())}


def _outcome(answer: Answer, output: str | None) -> Outcome:
    match answer.ending:
        case AnswerStatus.SUCCEEDED:
            return Succeeded(answer.result, output)
        case AnswerStatus.FAILED:
            return Failed(answer.error, answer.names, output)
        case AnswerStatus.STOPPED:
            return Stopped(output=output)
        case _:
            assert_never(answer.ending)
