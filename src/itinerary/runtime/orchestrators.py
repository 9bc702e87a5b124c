"""The orchestrators: one for each occurrence that runs here. They have its attempts run, and say that they are there.

An orchestrator is told what to launch, stop and give up, and hands that to the executors; what these report goes to
the core. While an occurrence is not over its orchestrator sends heartbeats; one that falls silent is orphaned (O4).

Reports may come from any thread, thousands at a time: they are gathered, and leave as one message.
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
    """All orchestrators of a node."""

    def __init__(self, executor: Executor, heartbeat_interval: int, inbox: Inbox, log: Any) -> None:
        self._executor, self._interval, self._inbox, self._log = executor, heartbeat_interval / SECOND, inbox, log
        self._followed: dict[Ref, None] = {}
        self._reports: deque[Report] = deque()
        self._has_reports = asyncio.Event()
        self._is_called = False
        """Somebody has been called to look at the reports, and has not begun to."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Get the executors ready."""
        self._loop = asyncio.get_running_loop()
        await self._executor.open(self._take)

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - it says so in the log
        """End by force what still runs. Executors that have not closed in time are left behind, and the log says so."""
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
        """An executor reports, from whatever thread."""
        assert self._loop is not None, "it was opened"
        self._reports.extend(reports)
        # In this order: who finds that somebody has been called already has put its reports where that one will look.
        if not self._is_called:
            self._is_called = True
            try:
                self._loop.call_soon_threadsafe(self._has_reports.set)
            except RuntimeError:  # the engine's loop is closed: nobody is left to hear of it
                self._log.warning("reports.unheard", count=len(reports))

    def carry_out(self, command: Launch | Stop | Kill | Follow | Forget) -> None:
        """Do what the core wants."""
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
        """Pass on reports and send heartbeats, for ever."""
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
        """Take what executors have reported by now, and what is not on its way to the core yet.

        The core takes it too, before it judges who is over its time: if the loop was held up, the task may have ended
        long before its timeout, and only the report is late.
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
