"""A node with many jobs of one no-op task each, as the benches of the engine need it."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from itinerary.core.loop.events import SchedulerEvent
from itinerary.executors import Registry
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.rows import EntryKind
from itinerary.model.settings import Settings
from itinerary.model.task import Task
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules import Schedule

__all__ = ["cpu", "job_names", "moment", "node_of", "register", "resident"]


def job_names(count: int) -> list[str]:
    """So many names."""
    return [f"job {number:06}" for number in range(count)]


async def register(store: Store, names: Sequence[str], function: str, schedule: Schedule) -> None:
    """Jobs with one schedule, and one task each."""
    stored = schedule.to_json()
    for first in range(0, len(names), 5_000):
        entries = [_entry(name, stored, function) for name in names[first : first + 5_000]]
        for entered in await store.amend(entries):
            assert isinstance(entered, EntryAccepted)


def moment(second: float) -> datetime:
    """A second since the epoch, as schedules take it."""
    return datetime.fromtimestamp(int(second), UTC)


def _entry(name: str, schedule: Any, function: str) -> TimelineEntryRequest:
    task = Task(id=task_id(job_id(name), "main"), name="main", order=0, definition={"python": function})
    body = to_json(Definition(schedule=schedule, tasks=(task,))).decode()
    return TimelineEntryRequest(
        job=name, kind=EntryKind.VERSION, request="bench", by="bench", from_version=0, body=body
    )


def node_of(
    store: Store,
    registry: Registry,
    slots: int,
    observer: Callable[[Sequence[SchedulerEvent]], None] = lambda _: None,
    *,
    name: str = "bench",
    recovery_pace: int = 100,
    log: Any = None,
) -> Node:
    """A node with slots enough; if nothing else is to be done with its log, it says nothing but warnings."""
    return Node(
        store,
        name=name,
        incarnation=uuid4().hex,
        settings=Settings(max_concurrent_jobs=slots, recovery_pace=recovery_pace),
        executor=CoroutineExecutor(registry),
        log=log
        or structlog.wrap_logger(
            structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
        ),
        observer=observer,
    )


def cpu() -> float:
    """Seconds of CPU that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> int:
    """Bytes of memory that this process has at the moment."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()
