"""An executor that somebody else wrote, held to its contract.

    it raises in open          each of its attempts is Failed, with the reason
    it raises in begin         that attempt is Failed
    it reports an end twice    the second is logged, and goes no further
    it raises in kill          the attempt is given up
    it raises in close         what it had is given up

So a broken one costs its own tasks and nobody else's. It is given one attempt at a time, to know which one it refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from itinerary.errors import ItineraryError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.model.work import Assignment, Ended, Report, Stopped
from itinerary.ports import Executor

__all__ = ["GuardedExecutor"]

_log: Final = structlog.stdlib.get_logger()


class GuardedExecutor(BaseExecutor[InFlight]):
    """Another package's executor. `make` gives it, and may raise."""

    def __init__(self, name: str, make: Callable[[], Executor]) -> None:
        super().__init__()
        self._name = name
        self._make = make
        self._executor: Executor | None = None
        self._why_not = ""

    async def _prepare(self) -> None:
        try:
            executor = self._make()
            await executor.open(self._reported)
        except Exception as error:  # noqa: BLE001 - somebody else's code
            self._why_not = f"executor {self._name!r} could not be opened: {type(error).__name__}: {error}"
            _log.exception("executor.could_not_be_opened", executor=self._name)
        else:
            self._executor = executor

    async def _shut_down(self) -> None:
        if self._executor is not None:
            try:
                await self._executor.close()
            except Exception:  # noqa: BLE001 - somebody else's code
                _log.exception("executor.could_not_be_closed", executor=self._name)

    def _accept(self, assignment: Assignment) -> InFlight:
        return InFlight(assignment)

    def _launch(self, attempt: InFlight) -> None:
        if self._executor is None:
            raise ItineraryError(self._why_not)
        self._executor.begin((attempt.assignment,))

    def _stop(self, attempt: InFlight) -> None:
        assert self._executor is not None, "nothing is in flight without it"
        try:
            self._executor.stop((attempt.key,))
        except Exception:  # noqa: BLE001 - somebody else's code; kill will follow
            _log.exception("executor.could_not_stop", executor=self._name, attempt=attempt.key)

    def _kill(self, attempt: InFlight) -> None:
        assert self._executor is not None, "nothing is in flight without it"
        try:
            self._executor.kill((attempt.key,))
        except Exception:  # noqa: BLE001 - somebody else's code
            _log.exception("executor.could_not_kill", executor=self._name, attempt=attempt.key)
            self._end(attempt.key, Stopped(abandoned=True))

    def _reported(self, reports: Sequence[Report]) -> None:
        """From any thread."""
        for report in reports:
            if not isinstance(report, Ended):
                self._say(report)
            elif not self._end(report.key, report.outcome):
                _log.error("executor.reported_an_end_twice", executor=self._name, attempt=report.key)
