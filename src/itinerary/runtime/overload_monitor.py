"""The overload monitor: checks every few seconds whether the node keeps up with due occurrences, and logs if not.

`core.loop.overload` evaluates these measurements, all but the first since the last check:

    overdue                                  the oldest due run that has not started, and the number of such runs
    slots                                    how often no slot was free
    loop                                     how long the loop's thread ran or was ready to run
    process                                  how much CPU the process used and waited for
    store                                    how long a store call was in progress

The monitor runs on the loop that it checks. If that loop hangs, `/health/live` reports it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from itinerary.core.loop.events import FellBehind
from itinerary.core.loop.overload import LOOK_EVERY, LoadMeasurement, OverloadDetector
from itinerary.core.loop.scheduler import Scheduler
from itinerary.model.overload import OverloadExtent
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.outcome_events import Tell
from itinerary.runtime.store_use import StoreUse
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["CpuUsed", "OverloadMonitor", "cpu_of_thread", "measure_cpu", "measure_nothing"]

_SAMPLES: Final = 5
"""Samples of the slots between two checks."""
_THREADS: Final = Path("/proc/self/task")


class CpuUsed(NamedTuple):
    """The CPU time up to now, in microseconds."""

    thread: int = 0
    """The CPU time of one thread, including the time in which it was ready to run and waited for a core."""
    process: int = 0
    waited: int = 0
    """The time in which threads of the process waited for a core; 0 if the system does not report it."""


async def measure_cpu() -> CpuUsed:
    """Measure the thread of the calling loop, and its process. Another thread reads the files."""
    return await asyncio.to_thread(cpu_of_thread, threading.get_native_id(), time.thread_time_ns() // 1_000)


async def measure_nothing() -> CpuUsed:
    """Return zeros: for a node with a simulated clock."""
    return CpuUsed()


def cpu_of_thread(thread_id: int, ran: int) -> CpuUsed:
    """Read how much CPU time a thread and this process have used, and how long they waited for a core.

    Args:
        thread_id: The native id of the thread.
        ran: The CPU time of the thread in microseconds, for a system that does not report waiting times.
    """
    process = time.process_time_ns() // 1_000
    try:
        thread, threads = sum(_schedstat(_THREADS / str(thread_id))), list(_THREADS.iterdir())
    except (OSError, ValueError):  # not on Linux
        return CpuUsed(ran, process)
    waited = 0
    for one in threads:
        with suppress(OSError, ValueError):  # the thread has just ended
            waited += _schedstat(one)[1]
    return CpuUsed(thread, process, waited)


def _schedstat(thread: Path) -> tuple[int, int]:
    """Return for how many microseconds a thread ran, and waited for a core."""
    ran, waited, *_ = (thread / "schedstat").read_text("ascii").split()
    return int(ran) // 1_000, int(waited) // 1_000


class OverloadMonitor:
    """The overload monitor of one node, on its loop."""

    def __init__(
        self,
        scheduler: Scheduler,
        clock: StoreClock,
        use: StoreUse,
        log: Any,
        notify: Tell,
        cpu: Callable[[], Awaitable[CpuUsed]] = measure_cpu,
    ) -> None:
        self._scheduler, self._clock, self._use, self._log, self._notify = scheduler, clock, use, log, notify
        self._cpu, self._overload = cpu, OverloadDetector()

    @property
    def behind(self) -> OverloadExtent | None:
        """The lateness of the node; None if it keeps up. Readable from any thread."""
        return self._overload.behind

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            cpu = await self._cpu()
            began, used, full = self._clock.elapsed(), self._use.total, 0
            for _ in range(_SAMPLES):
                await asyncio.sleep(LOOK_EVERY / _SAMPLES / SECOND)
                full += self._scheduler.lacks_slots
            after = await self._cpu()
            passed = max(self._clock.elapsed() - began, 1)
            overdue = self._scheduler.overdue(self._clock.now())
            self._judge(
                LoadMeasurement(
                    overdue.oldest_due_at,
                    overdue.runs,
                    slots=full / _SAMPLES,
                    loop=(after.thread - cpu.thread) / passed,
                    process=(after.process - cpu.process) / passed,
                    waited=(after.waited - cpu.waited) / passed,
                    store=(self._use.total - used) / passed,
                )
            )

    def _judge(self, measured: LoadMeasurement) -> None:
        before = self._overload.behind
        said = self._overload.look(self._clock.now(), measured)
        if isinstance(said, OverloadExtent):
            self._log.warning(
                "node.behind",
                by_seconds=said.by // SECOND,
                since=shown_instant(said.since),
                waiting=said.waiting,
                bottleneck=said.bottleneck.value,
                hint=said.advice,
            )
        elif said is not None:
            self._log.info(
                "node.on_time_again", lasted_seconds=said.lasted // SECOND, worst_seconds=said.worst // SECOND
            )
        if before is not None or self._overload.behind is not None:
            self._notify((FellBehind(self._overload.behind),))
