"""The orchestrators, one per running occurrence: they run its attempts and send its heartbeats.

The orchestrators pass the core's commands to the executors: launch, stop and kill. The reports of the executors go to
the core. Until an occurrence has ended, its orchestrator sends heartbeats. An occurrence without heartbeats is orphaned
(O4).

Reports may arrive from any thread, thousands at a time. The orchestrators send them on as one message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, assert_never

from itinerary.core.loop.commands import Follow, Forget, Kill, Launch, Stop
from itinerary.core.loop.messages import AttemptsReported, Heartbeats
from itinerary.model.attempts import Report
from itinerary.model.rows import Ref
from itinerary.ports import Executor
from itinerary.runtime.inbox import Inbox
from itinerary.schedules.durations import SECOND

__all__ = ["Orchestrators"]


class Orchestrators:
    """The orchestrators of a node."""

    def __init__(self, executor: Executor, heartbeat_interval: int, inbox: Inbox, log: Any) -> None:
        self._executor, self._interval, self._inbox, self._log = executor, heartbeat_interval / SECOND, inbox, log
        self._followed: dict[Ref, None] = {}
        self._reports: deque[Report] = deque()
        self._has_reports = asyncio.Event()
        self._is_called = False
        """True if `_pass_on` has been woken and has not begun to read the reports."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Open the executors."""
        self._loop = asyncio.get_running_loop()
        await self._executor.open(self._take)

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - the timeout is logged
        """Kill running attempts. Executors that have not closed in time are left behind, and this is logged."""
        try:
            async with asyncio.timeout(timeout):
                await self._executor.close()
        except TimeoutError:
            self._log.error(
                "executors.not_closed",
                waited_for=timeout,
                hint="what they still run ends with the process at the latest",
            )

    def _take(self, reports: Sequence[Report]) -> None:
        """Take reports of an executor, from any thread."""
        assert self._loop is not None, "it was opened"
        self._reports.extend(reports)
        # Append before the check of `_is_called`: a wake-up that is already pending then includes these reports.
        if not self._is_called:
            self._is_called = True
            try:
                self._loop.call_soon_threadsafe(self._has_reports.set)
            except RuntimeError:  # the node's loop is closed, and cannot receive the reports
                self._log.warning("reports.unheard", count=len(reports))

    def carry_out(self, command: Launch | Stop | Kill | Follow | Forget) -> None:
        """Carry out a command of the core."""
        match command:
            case Launch(assignments):
                self._executor.begin(assignments)
            case Stop(attempts):
                self._executor.stop(attempts)
            case Kill(attempts):
                self._executor.kill(attempts)
            case Follow(refs):
                self._followed.update(dict.fromkeys(refs))
            case Forget(refs):
                for ref in refs:
                    self._followed.pop(ref, None)
            case _:
                assert_never(command)

    async def run(self) -> None:
        """Pass on reports and send heartbeats until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pass_on(), name="reports")
            group.create_task(self._beat(), name="heartbeats")

    async def _pass_on(self) -> None:
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            self._is_called = False
            if reports := self.reported():
                await self._inbox.deliver(AttemptsReported(reports))

    def reported(self) -> list[Report]:
        """Take the reports that have not been sent to the core yet.

        The loop also calls this before the core checks timeouts. If the loop was blocked, a task may have ended long
        before its timeout, and only its report is late.
        """
        reports: list[Report] = []
        while self._reports:
            reports.append(self._reports.popleft())
        return reports

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._followed:
                await self._inbox.deliver(Heartbeats(list(self._followed)))
