"""Sustained: 2,000 occurrences a second for five minutes, on SQLite and on PostgreSQL. Does it keep up, and stay small?

Each job is due every ten seconds, and each second has its tenth of them. The node is a process of its own, so that its
memory is its own. It goes up and down by tens of megabytes, so it is read each second, and whether it grows is told by
the medians of two quarters: the one after a warm-up, and the last. What is noted of each run goes into memory that was
there before the warm-up, so that the notes do not grow; and not into NumPy's arrays, where one number takes as long to
write as an occurrence takes to start. A job that would overlap itself is skipped, and counts as missed.

A virtual machine is not always there: how much of its CPU was given to somebody else is told beside the lateness, and
the lateness once more of the seconds in which it was nearly nothing.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.harness import Result, in_own_process
from bench.noderun import job_names, moment, node_of, register, resident
from bench.places import opened, place
from itinerary.core.loop.events import OccurrenceEnded, SchedulerEvent
from itinerary.executors import ExecutionContext, Registry
from itinerary.model.states import OccurrenceState
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.schedules import every

__all__ = ["Notes", "run"]

RATE = 2_000
PERIOD = 10
"""Seconds between two runs of one job."""
WARM_UP = 4
"""One part in so many is to warm up: of five minutes more than the grace period and a rebuild of the index. Memory is
compared between two other parts."""
PATIENCE = 30.0
QUIET = 0.01
"""Which share of a second's CPU may be somebody else's, for the machine to have been there."""
_EARLIER = 0.05
"""Seconds before an instant at which a second of the machine's begins."""


def run(*, quick: bool) -> Iterator[Result]:
    """On both stores that more than one process may use."""
    for kind in ("sqlite", "postgres"):
        with place(kind) as url:
            found = sustained(url, RATE, 10 if quick else 300)
        yield Result("sustained", f"{kind}_per_s", found["per_s"], "/s", more_is_better=True)
        yield Result("sustained", f"{kind}_p99_ms", found["p99_ms"], "ms")
        yield Result("sustained", f"{kind}_stolen_percent", found["stolen_percent"], "%")
        yield Result("sustained", f"{kind}_p99_ms_in_quiet_seconds", found["quiet_p99_ms"], "ms")
        yield Result("sustained", f"{kind}_quiet_seconds", found["quiet_seconds"], "seconds", more_is_better=True)
        yield Result("sustained", f"{kind}_rss_growth_mb", found["rss_growth_mb"], "MB")
        yield Result("sustained", f"{kind}_rss_mb", found["rss_mb"], "MB")
        yield Result("sustained", f"{kind}_missed", found["missed"], "occurrences")
        yield Result("sustained", f"{kind}_doubled", found["doubled"], "occurrences")


def sustained(url: str, rate: int, seconds: int) -> dict[str, float]:
    """So many a second, for so many seconds, in a process of its own."""
    found: dict[str, float] = json.loads(in_own_process("bench.sustained", url, rate, seconds))
    return found


@dataclass(slots=True)
class Notes:
    """Which occurrence ran how often, and how late; in memory that is touched once, before anything is measured."""

    due_at: int
    rate: int
    seconds: int
    times: bytearray = field(init=False)
    """How often each occurrence ran: by second, and by its place in it."""
    late: array[float] = field(init=False)
    stolen: array[float] = field(init=False)
    """Which share of the machine's CPU somebody else had, by second."""
    memory: array[float] = field(init=False)
    """How many bytes the process had, by second."""
    finished: int = 0
    finished_at: float = 0.0

    def __post_init__(self) -> None:
        self.stolen = array("f", [math.nan]) * self.seconds
        self.memory = array("d", [math.nan]) * self.seconds
        self.times = bytearray(self.seconds * self.rate)
        self.late = array("f", [math.nan]) * (self.seconds * self.rate)

    def ran(self, place_in: int, scheduled_at: float, at: float) -> None:
        """The job at this place of its second began, for this instant."""
        place = (round(scheduled_at) - self.due_at) * self.rate + place_in
        self.times[place] += 1
        self.late[place] = at - scheduled_at

    def found(self) -> dict[str, float]:
        """What came of it."""
        times, late = np.frombuffer(self.times, np.uint8), np.frombuffer(self.late, np.float32)
        stolen, memory = np.frombuffer(self.stolen, np.float32), np.frombuffer(self.memory, np.float64)
        part = max(self.seconds // WARM_UP, 1)
        warm, ended = (float(np.median(memory[first:][:part])) for first in (min(part, self.seconds - part), -part))
        is_quiet = stolen <= QUIET
        return {
            "per_s": self.finished / max(self.finished_at - self.due_at, self.seconds),
            "p99_ms": _p99(late),
            "quiet_p99_ms": _p99(late.reshape(self.seconds, self.rate)[is_quiet]),
            "quiet_seconds": int(np.count_nonzero(is_quiet)),
            "stolen_percent": float(np.nanmean(stolen)) * 100 if np.isfinite(stolen).any() else math.nan,
            "missed": int(np.count_nonzero(times == 0)),
            "doubled": int(np.count_nonzero(times > 1)),
            "rss_growth_mb": (ended - warm) / 1e6,
            "rss_mb": ended / 1e6,
        }


def _p99(late: NDArray[np.float32]) -> float:
    """Of what did run, in milliseconds."""
    ran = late[~np.isnan(late)]
    return float(np.percentile(ran, 99)) * 1e3 if ran.size else math.nan


async def _watch_machine(notes: Notes) -> None:
    """Note each second what was stolen and how much memory is in use; not at its instant, when nobody has time."""
    await asyncio.sleep(notes.due_at - _EARLIER - time.time())
    before = _ticks()
    for second in range(notes.seconds):
        await asyncio.sleep(notes.due_at + second + 1 - _EARLIER - time.time())
        now = _ticks()
        notes.stolen[second] = (now.stolen - before.stolen) / max(now.all - before.all, 1)
        notes.memory[second] = resident()
        before = now


class _Ticks(NamedTuple):
    """Ticks of CPU time: those that others had of this machine's, and all that there were."""

    stolen: int
    all: int


def _ticks() -> _Ticks:
    with Path("/proc/stat").open(encoding="ascii") as lines:
        ticks = [int(word) for word in lines.readline().split()[1:9]]
    return _Ticks(ticks[7], sum(ticks))


async def _sustained(url: str, rate: int, seconds: int) -> dict[str, float]:
    clock = time.time
    due_at = int(clock()) + 20 + rate * PERIOD // 2_500
    notes = Notes(due_at, rate, seconds)
    names = job_names(rate * min(PERIOD, seconds))
    places = {name: number % rate for number, name in enumerate(names)}

    async def noop(ctx: ExecutionContext) -> None:
        at = clock()
        notes.ran(places[ctx.job], ctx.scheduled_at.timestamp(), at)

    def observe(news: Sequence[SchedulerEvent]) -> None:
        notes.finished += sum(
            isinstance(one, OccurrenceEnded) and one.outcome is OccurrenceState.COMPLETED for one in news
        )
        notes.finished_at = clock()

    registry = Registry()
    function = registry.register(noop, "bench.sustained:noop")
    async with opened(url) as store:
        for second in range(min(PERIOD, seconds)):
            schedule = every(f"{PERIOD}s", start=moment(due_at + second), end=moment(due_at + seconds - 1))
            await register(store, names[second * rate : (second + 1) * rate], function, schedule)
        node = node_of(store, registry, 4 * rate, observe)
        await node.start()
        relax_collector()  # as `itinerary up` does
        running, watching = asyncio.create_task(node.run()), asyncio.create_task(_watch_machine(notes))
        await asyncio.sleep(due_at + seconds - clock())
        while notes.finished < rate * seconds and clock() < due_at + seconds + PATIENCE:  # noqa: ASYNC110 - time decides, too
            await asyncio.sleep(0.1)
        await watching
        node.shut_down()
        await running
    return notes.found()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_sustained(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))), flush=True)
