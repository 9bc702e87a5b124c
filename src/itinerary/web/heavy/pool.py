"""The worker processes of one web server: the queue for them, and the result of a request.

run(work, caller)
  ├─ the budget of the caller is used up                429, with the time until it refills
  ├─ too many requests wait, or no worker was free      503
  ├─ the worker answers                                 the answer, as JSON
  ├─ the work is too much, or invalid                   400, as in this process
  ├─ the worker reaches its memory limit                400, with the limit
  ├─ the deadline passes                                503, with the deadline; the worker is killed
  ├─ the client leaves                                  the worker is killed
  ├─ no worker can be started                           503; the log has more
  └─ the worker ends for another reason                 503; the log has more
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, TypeVar

from itinerary import errors
from itinerary.audit import AuditProgress
from itinerary.errors import ItineraryError
from itinerary.model.settings import Settings
from itinerary.read.timeline_view import StoreView
from itinerary.schedules import ZoneData
from itinerary.schedules.durations import SECOND
from itinerary.web.heavy.bounds import IN_PROCESS, IN_WORKER, WindowLimits
from itinerary.web.heavy.budget import FULL_AFTER, CpuBudget
from itinerary.web.heavy.in_process import InProcess
from itinerary.web.heavy.process import WorkerDied, WorkerProcess
from itinerary.web.heavy.works import AnyWork, Setup, WorkFailure
from itinerary.web.problems import RequestRefused

__all__ = ["HeavyWork"]

_WAITING_MAX: Final = 16
"""The maximum number of requests that wait for a worker."""
_WAIT_TIMEOUT: Final = 10.0
_IDLE_TIMEOUT: Final = 60.0
"""The lifetime of an idle worker, in seconds."""
_LONG: Final = 10
"""The factor on the timeout of a work that no client waits for."""
T = TypeVar("T")


def _unheard(_: AuditProgress) -> None:
    """Ignore the progress."""


class HeavyWork:
    """The pool of heavy work. Created in any thread; used on the web server's event loop."""

    def __init__(
        self,
        store: str,
        settings: Settings,
        *,
        zone_data: ZoneData,
        view: Callable[[], Awaitable[StoreView]],
        is_in_process: bool,
        log: Any,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the pool; processes start when they are needed.

        Args:
            store: The URL of the store.
            settings: The settings of the node.
            zone_data: The zone data of the node.
            view: Reads the timeline, for work in this process.
            is_in_process: Whether only this process can do the work.
            log: The log of the node.
            elapsed: A monotonic clock, in seconds.
        """
        self._setup = Setup(store=store, settings=settings, megabytes=settings.web_work_megabytes)
        self._zone_data, self._view, self._log = zone_data, view, log
        self._is_in_process = is_in_process
        self._timeout = settings.web_work_timeout / SECOND
        self._budget = CpuBudget(settings.web_work_cpu_for / SECOND, elapsed)
        self._workers_max = 1 if is_in_process else settings.web_workers
        self._busy: Counter[str] = Counter()
        self._waiters: list[asyncio.Future[None]] = []
        self._idle: list[tuple[WorkerProcess, asyncio.TimerHandle]] = []
        self._endings: set[asyncio.Task[None]] = set()

    @property
    def bounds(self) -> WindowLimits:
        """The limits of windows."""
        return IN_PROCESS if self._is_in_process else IN_WORKER

    async def run(
        self, work: AnyWork, caller: str, *, handle: Callable[[AuditProgress], None] = _unheard, is_long: bool = False
    ) -> bytes:
        """Run a work for a caller. If this is cancelled, the work ends.

        Args:
            work: The work.
            caller: The name of the caller, who pays the CPU seconds.
            hear: Receives the progress.
            is_long: Whether no client waits, so that the work may take ten times as long.

        Returns:
            The answer as JSON.

        Raises:
            Refused: The work may not run now, or is too much.
            ItineraryError: The work is invalid, or the store cannot be read.
        """
        self._check_budget(caller)
        async with self._turn(caller):
            self._check_budget(caller)
            timeout = self._timeout * (_LONG if is_long else 1)
            try:
                if self._is_in_process:
                    return await self._run_here(work, caller, handle, timeout)
                return await self._run_there(work, caller, handle, timeout)
            except TimeoutError:
                self._log.warning("web.work_ended", work=_name(work), by=caller, why="deadline", timeout=timeout)
                raise RequestRefused(
                    503,
                    "Too slow",
                    f"the request took longer than {timeout:g} s, the most that it may take (web_work_timeout); ask "
                    "for less, or use the command line",
                ) from None

    async def metered(self, caller: str, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in a thread, in the caller's turn, and charge its CPU seconds to the caller.

        Raises:
            Refused: The caller has no CPU seconds left, or gets no turn in time.
        """
        self._check_budget(caller)

        def call() -> T:
            began = time.thread_time()
            try:
                return function(*arguments)
            finally:
                loop.call_soon_threadsafe(self._budget.take, caller, time.thread_time() - began)

        loop = asyncio.get_running_loop()
        async with self._turn(caller):
            return await asyncio.to_thread(call)

    async def close(self) -> None:
        """End all workers."""
        for worker, timer in self._idle:
            timer.cancel()
            self._end_later(worker, None)
        self._idle.clear()
        if self._endings:
            await asyncio.wait(self._endings)

    # -- admission ---------------------------------------------------------------------------------------------------

    def _check_budget(self, caller: str) -> None:
        wait = self._budget.wait(caller)
        if wait is not None:
            raise RequestRefused(
                429,
                "CPU budget used up",
                f"{caller!r} has used its {self._budget.seconds:g} CPU seconds for heavy requests (web_work_cpu_for); "
                f"they come back over {FULL_AFTER / 60:g} minutes; ask again in {wait} s",
                headers=(("Retry-After", str(wait)),),
            )

    @asynccontextmanager
    async def _turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for a free worker. A caller has one request in progress at a time."""
        try:
            async with asyncio.timeout(_WAIT_TIMEOUT):
                while self._busy[caller] or self._busy.total() >= self._workers_max:
                    await self._wait(caller)
        except TimeoutError:
            raise self._no_turn(caller) from None
        self._busy[caller] += 1
        try:
            yield
        finally:
            del self._busy[caller]
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _wait(self, caller: str) -> None:
        """Wait until a request ends. Raises Refused if too many wait."""
        if len(self._waiters) >= _WAITING_MAX:
            raise self._no_turn(caller)
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def _no_turn(self, caller: str) -> RequestRefused:
        """Explain why a caller gets no worker: a request of its own, or of others, is in progress."""
        if self._busy[caller]:
            why = f"another heavy request or audit of {caller!r} is in progress, and a caller may have one at a time"
        else:
            why = "other long-running requests are in progress on this node"
        return RequestRefused(503, "Busy", f"{why}; ask again in a while", headers=(("Retry-After", "5"),))

    # -- the work ----------------------------------------------------------------------------------------------------

    async def _run_here(
        self, work: AnyWork, caller: str, handle: Callable[[AuditProgress], None], within: float
    ) -> bytes:
        here = InProcess(await self._view(), self._setup.settings, self._zone_data, handle)
        try:
            async with asyncio.timeout(within):
                return await here.run(work)
        finally:
            self._budget.take(caller, here.cpu)

    async def _run_there(
        self, work: AnyWork, caller: str, handle: Callable[[AuditProgress], None], within: float
    ) -> bytes:
        worker = await self._worker(work, caller)
        is_kept = False
        try:
            async with asyncio.timeout(within):
                answer = await worker.ask(work, handle)
            self._budget.take(caller, worker.used(answer.cpu))
            if isinstance(answer, WorkFailure):
                is_kept = answer.kind not in ("memory", "bug")
                self._raise(work, caller, answer)
            is_kept = not answer.is_spent
            return bytes(answer.answer)
        except WorkerDied as died:
            self._log.warning("web.work_ended", work=_name(work), by=caller, why="worker died", status=str(died))
            raise RequestRefused(
                503, "Worker died", "the worker process of this request ended; ask for less. The node's log has more"
            ) from None
        finally:
            if is_kept:
                self._keep(worker)
            else:
                await self._end(worker, caller)

    def _raise(self, work: AnyWork, caller: str, failure: WorkFailure) -> NoReturn:
        match failure.kind:
            case "refused":
                raise RequestRefused(failure.status, failure.title, failure.detail)
            case "memory":
                megabytes = self._setup.megabytes
                self._log.warning("web.work_ended", work=_name(work), by=caller, why="memory", megabytes=megabytes)
                raise RequestRefused(
                    400,
                    "Too much",
                    f"the request needs more than {megabytes} MB of memory, the most that it may take "
                    "(web_work_megabytes); ask for a shorter window or fewer jobs, or use the command line",
                )
            case "bug":
                self._log.error("web.work_failed", work=_name(work), by=caller, trace=failure.detail)
                raise RequestRefused(
                    500, "Our mistake", "this should not have happened; the node's log has more about it"
                )
            case name:
                kind = getattr(errors, name, ItineraryError)
                raise kind(failure.detail)

    # -- processes ---------------------------------------------------------------------------------------------------

    async def _worker(self, work: AnyWork, caller: str) -> WorkerProcess:
        """Return an idle worker, or a new one. Raises Refused if none can be started."""
        while self._idle:
            worker, timer = self._idle.pop()
            timer.cancel()
            if worker.is_running:
                return worker
            self._end_later(worker, None)
        try:
            return await WorkerProcess.start(self._setup)
        except (WorkerDied, OSError) as error:
            self._log.warning("web.work_ended", work=_name(work), by=caller, why="no worker", status=str(error))
            raise RequestRefused(
                503,
                "No worker",
                "no worker process could be started for this request; ask again in a while. The node's log has more",
                headers=(("Retry-After", "5"),),
            ) from None

    def _keep(self, worker: WorkerProcess) -> None:
        timer = asyncio.get_running_loop().call_later(_IDLE_TIMEOUT, self._retire, worker)
        self._idle.append((worker, timer))

    def _retire(self, worker: WorkerProcess) -> None:
        self._idle = [one for one in self._idle if one[0] is not worker]
        self._end_later(worker, None)

    async def _end(self, worker: WorkerProcess, caller: str) -> None:
        """Kill a worker and wait until it has exited, even if the request is cancelled."""
        await asyncio.shield(self._end_later(worker, caller))

    def _end_later(self, worker: WorkerProcess, caller: str | None) -> asyncio.Task[None]:
        async def end() -> None:
            used = await worker.end()
            if caller is not None:
                self._budget.take(caller, used)

        worker.kill()
        task = asyncio.create_task(end(), name=f"end of worker {worker.pid}")
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)
        return task


def _name(work: AnyWork) -> str:
    return str(type(work).__struct_config__.tag)
