"""A wrapper around an executor of another package, which enforces the contract.

    it raises in open          its attempts are Failed, with the reason
    it raises in begin         that attempt is Failed
    it reports an end twice    the second end is logged and ignored
    its result is too long     the result is dropped, and the log says so
    it raises in kill          the attempt is abandoned
    it raises in close         its attempts are abandoned
    its close takes too long   the same

A broken executor therefore harms only its own tasks. The wrapper passes on one attempt at a time, so that an error
belongs to one attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from itinerary.errors import ItineraryError
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.model.attempts import Assignment, Ended, Outcome, Report, Stopped, Succeeded
from itinerary.model.codec import RESULT_MAX
from itinerary.model.exception_text import message_of
from itinerary.ports import Executor

__all__ = ["CLOSE_TIMEOUT", "GuardedExecutor"]

CLOSE_TIMEOUT: Final = 5.0
"""The limit for closing, in seconds."""

_log: Final = structlog.stdlib.get_logger()


class GuardedExecutor(BaseExecutor[InFlight]):
    """An executor of another package. `make` creates it, and may raise."""

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
        except Exception as error:  # noqa: BLE001 - code of another package
            self._why_not = f"executor {self._name!r} could not be opened: {type(error).__name__}: {message_of(error)}"
            _log.exception("executor.could_not_be_opened", executor=self._name)
        else:
            self._executor = executor

    async def _shut_down(self) -> None:
        if self._executor is not None:
            closing = asyncio.get_running_loop().create_task(self._executor.close())
            done, _ = await asyncio.wait([closing], timeout=CLOSE_TIMEOUT)
            if not done:
                closing.cancel()  # it may ignore the cancellation, so nothing waits for it
                _log.error("executor.not_closed", executor=self._name, waited_for=CLOSE_TIMEOUT)
            elif not closing.cancelled() and (error := closing.exception()) is not None:
                _log.error("executor.could_not_be_closed", executor=self._name, exc_info=error)

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
        except Exception:  # noqa: BLE001 - code of another package; kill follows
            _log.exception("executor.could_not_stop", executor=self._name, attempt=attempt.key)

    def _kill(self, attempt: InFlight) -> None:
        assert self._executor is not None, "nothing is in flight without it"
        try:
            self._executor.kill((attempt.key,))
        except Exception:  # noqa: BLE001 - code of another package
            _log.exception("executor.could_not_kill", executor=self._name, attempt=attempt.key)
            self._end(attempt.key, Stopped(abandoned=True))

    def _reported(self, reports: Sequence[Report]) -> None:
        """Handle reports, from any thread."""
        for report in reports:
            if not isinstance(report, Ended):
                self._say(report)
            elif not self._end(report.key, self._bounded(report)):
                _log.error("executor.reported_an_end_twice", executor=self._name, attempt=report.key)

    def _bounded(self, ended: Ended) -> Outcome:
        """Drop a result that is too long. Texts are cut when they are written."""
        outcome = ended.outcome
        if not isinstance(outcome, Succeeded) or outcome.result is None or len(outcome.result) < RESULT_MAX:
            return outcome
        attempt = self._in_flight.get(ended.key)
        if attempt is not None:
            why = f"the result is {len(outcome.result)} characters of JSON; it must be under {RESULT_MAX}"
            facts = attempt.assignment.facts
            _log.warning("task.result_not_kept", job=facts.job, task=facts.task, why=why)
        return Succeeded(output=outcome.output)
