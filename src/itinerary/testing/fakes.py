"""Fakes: replacements for tasks in a test, such as a command, a call, or a task that must fail.

    run.fake("etl/compress")                                      succeeds, and takes no time
    run.fake("etl/compress", returns={"files": 3}, takes="2h")    … with a result, after two hours
    run.fake("etl", raises=[TimeoutError("slow"), None])          fails once, and succeeds from then on
    run.fake("etl/load", does=lambda ctx: calls.append(ctx))      runs this in its place

A fake replaces the work and nothing else: timeouts, retries, overlap and reports are those of the real task.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from itinerary.errors import ClockError
from itinerary.executors import ExecutionContext
from itinerary.schedules.durations import SECOND, DurationLike, parse_duration
from itinerary.schedules.suggestions import did_you_mean

__all__ = ["Fake", "Fakes", "Raises"]

Raises: TypeAlias = BaseException | type[BaseException] | None
"""The error of one run of a fake; None: no error."""

_SHOWN: Final = 20


class Fake:
    """A fake. `calls` are the contexts that it was called with."""

    def __init__(
        self,
        name: str,
        returns: object,
        raises: Raises | Sequence[Raises],
        takes: DurationLike,
        does: Callable[[ExecutionContext], object] | None,
    ) -> None:
        self.name = name
        self.calls: list[ExecutionContext] = []
        self._returns, self._does = returns, does
        self._takes = parse_duration(takes) / SECOND
        self._always: Raises = None
        self._in_turn: list[Raises] = []
        if isinstance(raises, Sequence):
            self._in_turn = list(raises)
        else:
            self._always = raises

    def __repr__(self) -> str:
        return f"<Fake {self.name!r}, called {len(self.calls)} times>"

    async def play(self, ctx: ExecutionContext) -> object:
        """Run in place of the task."""
        self.calls.append(ctx)
        error = self._in_turn.pop(0) if self._in_turn else self._always
        if self._takes:
            await asyncio.sleep(self._takes)
        if error is not None:
            raise error
        if self._does is None:
            return self._returns
        came_of_it = self._does(ctx)
        return await came_of_it if inspect.isawaitable(came_of_it) else came_of_it


class Fakes:
    """The fakes of a test node, by job and task."""

    def __init__(self) -> None:
        self._by_task: dict[tuple[str, str], Fake] = {}

    def add(self, fake: Fake, tasks: Mapping[str, Sequence[str]]) -> None:
        """Add or replace a fake. `tasks` has the tasks of each job."""
        self._by_task[_meant(fake.name, tasks)] = fake

    def find(self, job: str, task: str) -> Fake | None:
        """Return the fake of a task, if any."""
        return self._by_task.get((job, task))


def _meant(name: str, tasks: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the task of that name: `job/task`, a job with one task, or a unique task name."""
    everything = [(job, task) for job, names in tasks.items() for task in names]
    whole = [pair for pair in everything if name == "/".join(pair)]
    found = (
        whole or [pair for pair in everything if pair[0] == name] or [pair for pair in everything if pair[1] == name]
    )
    if len(found) == 1:
        return found[0]
    names: list[Any] = ["/".join(pair) for pair in found or everything]
    if found:
        raise ClockError(f"{name!r} may be several tasks; say which: {', '.join(names[:_SHOWN])}")
    hint = did_you_mean(name, [*names, *tasks], otherwise=f"there are {', '.join(names[:_SHOWN])}")
    raise ClockError(f"there is no task {name!r} to be faked; {hint}")
