"""Pause: a node at 2,000 runs a second is stopped for ten seconds. How long does the node need to be on time again?

Each job is due every second, which is the hardest case: after the stop each job has several late instants, and its
overlap policy is the default, `skip`. A helper process sends SIGSTOP to the node, and SIGCONT after the pause. The node
is a process of its own and notes the start of each run in memory that is allocated before the measurement.

The node is on time again when no later run starts more than a second late. Nothing may be skipped, since no run
overlaps another; no run may be doubled; and the runs of each job must start in the order of their instants.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.harness import Result, in_own_process
from bench.noderun import cpu, job_names, moment, node_of, register
from bench.places import opened, place
from itinerary.core.loop.events import OccurrenceEnded, SchedulerEvent
from itinerary.executors import ExecutionContext, Registry
from itinerary.model.states import OccurrenceState
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every

__all__ = ["Notes", "run"]

RATE = 2_000
STOP_FOR = 10
BEFORE = 5
"""Seconds of load before the pause."""
AFTER = 45
"""Seconds of load after the pause."""
ON_TIME = 1.0
"""Seconds by which a run may start late and still be on time."""
PATIENCE = 120.0


def run(*, quick: bool) -> Iterator[Result]:
    """Measure on both stores that several processes may share."""
    for kind in ("sqlite", "postgres"):
        with place(kind) as url:
            found = pause(url, RATE // 10 if quick else RATE, 3 if quick else STOP_FOR, 12 if quick else AFTER)
        yield Result("pause", f"{kind}_on_time_after_s", found["on_time_after_s"], "s")
        yield Result("pause", f"{kind}_catch_up_per_s", found["catch_up_per_s"], "/s", more_is_better=True)
        yield Result("pause", f"{kind}_cpu_s", found["cpu_s"], "s")
        yield Result("pause", f"{kind}_skipped", found["skipped"], "occurrences")
        yield Result("pause", f"{kind}_missed", found["missed"], "occurrences")
        yield Result("pause", f"{kind}_doubled", found["doubled"], "occurrences")
        yield Result("pause", f"{kind}_out_of_order", found["out_of_order"], "jobs")


def pause(url: str, rate: int, stop_for: int, after: int, slots: int | None = None) -> dict[str, float]:
    """Stop a node with this rate for so many seconds, in a process of its own."""
    found: dict[str, float] = json.loads(
        in_own_process("bench.pause", url, rate, stop_for, after, 4 * rate if slots is None else slots)
    )
    return found


@dataclass(slots=True)
class Notes:
    """The start of each run, by instant and job."""

    due_at: int
    rate: int
    seconds: int
    resumed_at: float = math.inf
    skipped: int = 0
    finished: int = 0
    cpu_s: float = 0.0
    started: array[float] = field(init=False)
    times: bytearray = field(init=False)

    def __post_init__(self) -> None:
        self.started = array("d", [math.nan]) * (self.seconds * self.rate)
        self.times = bytearray(self.seconds * self.rate)

    def ran(self, job: int, scheduled_at: float, at: float) -> None:
        """Note that this run of this job started."""
        place_of = (round(scheduled_at) - self.due_at) * self.rate + job
        self.times[place_of] += 1
        self.started[place_of] = at

    def found(self) -> dict[str, float]:
        """Return what the node did."""
        times = np.frombuffer(self.times, np.uint8)
        started = np.frombuffer(self.started, np.float64).reshape(self.seconds, self.rate)
        late = started - (self.due_at + np.arange(self.seconds))[:, None]
        behind = started[late > ON_TIME]
        behind = behind[behind >= self.resumed_at]
        on_time_at = float(behind.max()) if behind.size else self.resumed_at
        took = max(on_time_at - self.resumed_at, 0.0)
        in_order = np.where(np.isnan(started), -math.inf, started)
        in_order = np.maximum.accumulate(in_order, axis=0)
        ran_before = (started < np.vstack([np.full((1, self.rate), -math.inf), in_order[:-1]])).any(axis=0)
        return {
            "on_time_after_s": took,
            "catch_up_per_s": int(np.count_nonzero((started >= self.resumed_at) & (started <= on_time_at))) / took
            if took
            else math.nan,
            "cpu_s": self.cpu_s,
            "skipped": self.skipped,
            "missed": int(np.count_nonzero(times == 0)),
            "doubled": int(np.count_nonzero(times > 1)),
            "out_of_order": int(np.count_nonzero(ran_before)),
            "worst_late_s": float(np.nanmax(late)),
        }


async def _stopped(stop_for: int) -> None:
    """Have another process stop this one, and continue it."""
    pid = os.getpid()
    helper = await asyncio.create_subprocess_exec("sh", "-c", f"kill -STOP {pid}; sleep {stop_for}; kill -CONT {pid}")
    await helper.wait()


async def _paused(url: str, rate: int, stop_for: int, after: int, slots: int) -> dict[str, float]:
    clock = time.time
    due_at = int(clock()) + 20 + rate // 500
    notes = Notes(due_at, rate, BEFORE + stop_for + after)
    names = job_names(rate)
    numbers = {name: number for number, name in enumerate(names)}

    async def noop(ctx: ExecutionContext) -> None:
        at = clock()
        notes.ran(numbers[ctx.job], ctx.scheduled_at.timestamp(), at)

    def observe(news: Sequence[SchedulerEvent]) -> None:
        ended = [one for one in news if isinstance(one, OccurrenceEnded)]
        notes.finished += len(ended)
        notes.skipped += sum(one.outcome is OccurrenceState.SKIPPED for one in ended)

    registry = Registry()
    function = registry.register(noop, "bench.pause:noop")
    async with opened(url) as store:
        schedule = every("1s", start=moment(due_at), end=moment(due_at + notes.seconds - 1))
        await register(store, names, function, schedule)
        node = node_of(store, registry, slots, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running = asyncio.create_task(node.run())
        await asyncio.sleep(due_at + BEFORE + 0.5 - clock())
        used = cpu()
        await _stopped(stop_for)
        notes.resumed_at = due_at + BEFORE + 0.5 + stop_for
        last_at = due_at + notes.seconds
        while notes.finished < rate * notes.seconds and clock() < last_at + PATIENCE:  # noqa: ASYNC110 - time decides, too
            await asyncio.sleep(0.1)
        notes.cpu_s = cpu() - used
        node.shut_down()
        await running
    return notes.found()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_paused(sys.argv[1], *map(int, sys.argv[2:])))), flush=True)
