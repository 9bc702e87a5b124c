"""A node with many jobs of one no-op task each, as the benches of the engine need it."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import structlog

from itinerary.core.news import News
from itinerary.executors import Registry
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.ids import job_id, task_id
from itinerary.model.job import Task
from itinerary.model.rows import EntryKind
from itinerary.model.settings import Settings
from itinerary.model.timeline import Entered, NewEntry
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules import every

__all__ = ["cpu", "job_names", "node_of", "register"]


def job_names(count: int) -> list[str]:
    """So many names."""
    return [f"job {number:06}" for number in range(count)]


async def register(
    store: Store, names: Sequence[str], function: str, due_at: int, interval: str = "1h", end: datetime | None = None
) -> None:
    """Jobs that are due every so often, from one and the same second on."""
    schedule = every(interval, start=datetime.fromtimestamp(due_at, UTC), end=end).to_json()
    for first in range(0, len(names), 5_000):
        entries = [_entry(name, schedule, function) for name in names[first : first + 5_000]]
        for entered in await store.amend(entries):
            assert isinstance(entered, Entered)


def _entry(name: str, schedule: Any, function: str) -> NewEntry:
    task = Task(id=task_id(job_id(name), "main"), name="main", order=0, definition={"python": function})
    body = to_json(Definition(schedule=schedule, tasks=(task,))).decode()
    return NewEntry(job=name, kind=EntryKind.VERSION, request="bench", by="bench", from_version=0, body=body)


def node_of(
    store: Store,
    registry: Registry,
    slots: int,
    observer: Callable[[Sequence[News]], None] = lambda _: None,
    *,
    recovery_pace: int = 100,
) -> Node:
    """A node with slots enough, that says nothing but warnings."""
    return Node(
        store,
        name="bench",
        incarnation=uuid4().hex,
        settings=Settings(max_concurrent_jobs=slots, recovery_pace=recovery_pace),
        executor=CoroutineExecutor(registry),
        log=structlog.wrap_logger(
            structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING)
        ),
        observer=observer,
    )


def cpu() -> float:
    """Seconds of CPU that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
