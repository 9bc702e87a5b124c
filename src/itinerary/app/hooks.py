"""Hooks are told something other than a context: the occurrence that starts, or the report of its end (X7).

A hook is run as every function is, by its name, and an executor gives every function a context. So what a hook is to be
told is kept here, under the attempt that tells it, and what is registered under the hook's name takes it from here:

    Assignment(argument=report)  ──►  keeps the report  ──►  the executor  ──►  told(ctx)  ──►  hook(report)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from itinerary.executors import ExecutionContext
from itinerary.model.work import Assignment, AttemptKey, Ended, Report
from itinerary.ports import Executor

__all__ = ["Hooks", "ToldExecutor"]


class Hooks:
    """What hooks are to be told, and the functions that tell them."""

    def __init__(self) -> None:
        self._kept: dict[AttemptKey, object] = {}
        self._adapted: dict[Callable[..., Any], Callable[..., Any]] = {}

    def adapted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is to be registered under a hook's name; the same, however often it is asked for."""
        known = self._adapted.get(function)
        if known is None:
            known = self._adapted[function] = self._adapter(function)
        return known

    def _adapter(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def told_awaiting(given: object) -> object:
                return await function(self._told(given))

            return told_awaiting

        @functools.wraps(function)
        def told(given: object) -> object:
            return function(self._told(given))

        return told

    def _told(self, given: object) -> object:
        if not isinstance(given, ExecutionContext):
            return given  # from an executor that passes on what the assignment has
        return self._kept[given._key]  # noqa: SLF001 - the attempt's key, by which it was kept

    def keep(self, assignments: Sequence[Assignment]) -> None:
        """Keep what the hooks among these are to be told."""
        for assignment in assignments:
            if assignment.argument is not None:
                self._kept[assignment.key] = assignment.argument

    def forget(self, reports: Sequence[Report]) -> None:
        """These have been told."""
        if self._kept:
            for report in reports:
                if isinstance(report, Ended):
                    self._kept.pop(report.key, None)


class ToldExecutor:
    """An executor around another one, which keeps what hooks are told for as long as they run."""

    def __init__(self, inner: Executor, hooks: Hooks) -> None:
        self._inner, self._hooks = inner, hooks

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        def passed_on(reports: Sequence[Report]) -> None:
            self._hooks.forget(reports)
            report(reports)

        await self._inner.open(passed_on)

    async def close(self) -> None:
        await self._inner.close()

    def begin(self, assignments: Sequence[Assignment]) -> None:
        self._hooks.keep(assignments)
        self._inner.begin(assignments)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        self._inner.stop(attempts)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        self._inner.kill(attempts)
