"""An event loop with virtual time: a simulated day takes only as long as its computation.

    ready callbacks, in random order ──► run them all
          │ none left
          ▼
    the next timer: the clock is set to its time, and all timers of that time are ready

Nothing here waits for a real event. The loop has no sockets, threads or signals, and raises `SimulationError` for a
caller that needs one. So the same random generator gives the same order of all events, and one seed has one history.

**Processes.** Each callback belongs to the process that created it (see `processes`). The loop sets aside the callbacks
of a frozen or crashed process. After a thaw, they run in the order of their due times, as in a real process that
continues. Callbacks that were due at the same moment run in random order.

**Possible failures** are a history without an end, and a history that differs from run to run. If no callback is ready
and no timer is left, the loop raises `Stalled` with the name and the position of every waiting task. 100,000 rounds of
callbacks at one moment raise `Stalled` too. asyncio iterates over a set of tasks when it cancels a group. That order
would depend on addresses, so the tasks of this loop have numbers, and the number is the hash.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from itertools import groupby
from random import Random
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from itinerary.errors import ItineraryError
from itinerary.testing.processes import PROCESS, Process, ProcessState

__all__ = ["SimulationError", "Stalled", "VirtualLoop"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_ROUNDS_MAX: Final = 100_000
"""The most rounds of callbacks at one moment. With more, time would never advance."""
_CLOSINGS_MAX: Final = 1_000
"""The most attempts to close a task."""


class SimulationError(ItineraryError):
    """A request that the simulation does not support, or that would make it unrepeatable."""


class Stalled(SimulationError):
    """Time can no longer advance: no event is left, or callbacks repeat without end."""


class _Callback(asyncio.TimerHandle):
    """A callback, with or without a time, and its process."""

    __slots__ = ("is_timer", "process")

    def __init__(  # without the base's __init__, which checks debug mode and stack traces each time
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._when = when
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._scheduled = False
        self._repr = None
        self._source_traceback = None
        self.process: Process | None = context.get(PROCESS)
        self.is_timer = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def run(self) -> None:
        """Call the callback. The loop's exception handler receives its errors."""
        if self._cancelled:
            return
        assert self._callback is not None, "a callback is there until it is cancelled"
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as in asyncio: the handler decides
            message = f"a callback raised: {self._callback!r}"
            self._loop.call_exception_handler({"message": message, "exception": error, "handle": self})


class _NumberedTask(asyncio.Task[T]):
    """A task whose hash is its number, so the order of a set of tasks does not depend on addresses."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class VirtualLoop(asyncio.BaseEventLoop):
    """An asyncio loop in virtual time, in seconds from 0."""

    def __init__(self, dice: Random) -> None:
        super().__init__()
        self._dice = dice
        self._thread = threading.get_ident()
        self._time = 0.0
        self._ready_now: list[_Callback] = []
        self._timers: list[tuple[float, int, int, _Callback]] = []
        """A heap of (time, rank among the timers of that time, number, callback)."""
        self._numbers = 0
        self._rounds = 0
        self._tasks = 0
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        return self._time

    # -- requests for callbacks --------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Callback(self._time, callback, args, self, copy_context() if context is None else context)
        self._ready_now.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Callback(when, callback, args, self, copy_context() if context is None else context)
        handle.is_timer = True
        self._numbers += 1
        heapq.heappush(self._timers, (max(when, self._time), 0, self._numbers, handle))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            _refuse("a callback from another thread")
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        del executor, args
        _refuse(f"a thread for {func!r}")

    def _push(self, when: float, rank: int, handle: _Callback) -> None:
        self._numbers += 1
        heapq.heappush(self._timers, (when, rank, self._numbers, handle))

    def _new_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        self._tasks += 1
        name = options.pop("name", None) or f"task {self._tasks}"
        return _NumberedTask(coroutine, self._tasks, loop=loop, name=name, **options)

    # -- running callbacks -------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """Run all ready callbacks in random order. `run_forever` calls this."""
        batch = self._ready_now or self._jump()
        self._ready_now = []
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise Stalled(f"time stands still at {self._time:.6f} s: there is always another callback ({batch[0]!r})")
        if len(batch) > 1:
            random = self._dice.random
            batch = [handle for _, _, handle in sorted([(random(), number, h) for number, h in enumerate(batch)])]
        for handle in batch:
            process = handle.process
            if process is None or process.is_running:
                handle.run()
            elif not handle.cancelled():
                process.parked.append((self._time, handle))

    def _jump(self) -> list[_Callback]:
        """Set the clock to the next timer, and return all timers of that time and rank."""
        timers = self._timers
        while timers and timers[0][-1].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Stalled(f"nothing is left to happen at {self._time:.6f} s, and these wait: {self._waiting()}")
        when, rank, _, handle = heapq.heappop(timers)
        if when > self._time:
            self._time = when
            self._rounds = 0
        due = [handle]
        while timers and timers[0][0] == when and timers[0][1] == rank:
            due.append(heapq.heappop(timers)[-1])
        return due

    def _waiting(self) -> str:
        return "; ".join(_shown(task) for task in self._unfinished()) or "nothing"

    def _unfinished(self) -> list[asyncio.Task[Any]]:
        def number(task: asyncio.Task[Any]) -> int:
            return hash(task)

        return sorted(asyncio.all_tasks(self), key=number)

    # -- states of processes -----------------------------------------------------------------------------------------

    def freeze(self, process: Process) -> None:
        """Stop a process at any point."""
        process.set_state(ProcessState.FROZEN)
        if process.threads is not None:
            process.threads.set_state(ProcessState.FROZEN)

    def hold_up(self, process: Process) -> None:
        """Stop the event loop of a process, but not its other threads."""
        process.set_state(ProcessState.HELD_UP)

    def thaw(self, process: Process) -> None:
        """Resume a process. Callbacks that became due during the stop run now, in the order of their due times."""
        parked, process.parked = process.parked, []
        if process.threads is not None and process.state is ProcessState.FROZEN:
            process.threads.set_state(ProcessState.RUNNING)
            parked = sorted([*parked, *process.threads.parked], key=lambda one: one[0])
            process.threads.parked = []
        in_turn = _by_time
        if process.state is ProcessState.HELD_UP:
            in_turn = _timers_last
            parked = sorted(parked, key=in_turn)
        process.set_state(ProcessState.RUNNING)
        for rank, (_, handles) in enumerate(groupby(parked, key=in_turn), start=1):
            for _, handle in handles:
                assert isinstance(handle, _Callback), "this loop has no others"
                self._push(self._time, rank, handle)

    def crash(self, process: Process) -> None:
        """End a process: none of its callbacks runs again. Its tasks stay unchanged until `bury`."""
        process.set_state(ProcessState.CRASHED)
        if process.threads is not None:
            process.threads.set_state(ProcessState.CRASHED)

    def bury(self) -> None:
        """Close every unfinished task at the end of the simulation.

        A closed coroutine runs its `finally` blocks, which may wait again. Their effects no longer matter, so each
        coroutine is closed repeatedly until it ends.
        """
        for task in self._unfinished():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - closed on purpose
            coroutine = task.get_coro()
            assert isinstance(coroutine, Coroutine | Generator), "a task runs a coroutine"
            _close(coroutine)
        for handle in self._ready_now:
            handle.cancel()
        for _, _, _, handle in self._timers:
            handle.cancel()

    def _asyncgen_finalizer_hook(self, agen: object) -> None:
        """Do nothing, since the time of a garbage collection must not affect the history."""


def _by_time(parked: tuple[float, asyncio.Handle]) -> tuple[bool, float]:
    return False, parked[0]


def _timers_last(parked: tuple[float, asyncio.Handle]) -> tuple[bool, float]:
    """Return the sort key after a loop was stopped: callbacks from other threads before timers, as in asyncio."""
    when, handle = parked
    assert isinstance(handle, _Callback), "this loop has no others"
    return handle.is_timer, when


def _close(coroutine: Coroutine[Any, Any, Any] | Generator[Any, Any, Any]) -> None:
    for _ in range(_CLOSINGS_MAX):
        try:
            coroutine.close()
        except RuntimeError:  # a `finally` block waits
            continue
        except BaseException:  # noqa: BLE001, S112 - errors of the clean-up do not matter
            continue
        return
    raise SimulationError(f"{coroutine!r} does not end, however often it is closed")


def _refuse(what: str) -> NoReturn:
    raise SimulationError(f"{what} was asked for, and a simulation has none; hand in something that needs none")


def _shown(task: asyncio.Task[Any]) -> str:
    """Return the name of a task, its coroutine, and the source line where it waits."""
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", repr(coroutine))
    place = ""
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        frame = coroutine.cr_frame
        place = f" in {frame.f_code.co_name} at {frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        coroutine = coroutine.cr_await
    return f"{task.get_name()} {name}{place}"
