"""A node: one running scheduler with all its components.

    start     join the store, learn its time, build the first index,               (an error here stops the start)
              take over the work of a killed predecessor, recover
    run       the loop and all components, until shutdown
    shut_down accept no new work, release unstarted occurrences, end running ones as `on_shutdown` requires, leave

All components run in one task group. If a component fails with an unexpected error, the group ends the others, and the
node stops with that error. A node never continues without one of its components.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, assert_never

import msgspec

from itinerary.core.loop.commands import (
    Announce,
    Claim,
    Command,
    Exit,
    Follow,
    Forget,
    KeepStatistics,
    Kill,
    Launch,
    Log,
    LogLevel,
    ReadRows,
    RebuildIndex,
    Release,
    Reply,
    StartRuns,
    Stop,
    TakeUp,
    Write,
)
from itinerary.core.loop.events import SchedulerEvent
from itinerary.core.loop.log_budget import LogBudget, log_summaries
from itinerary.core.loop.messages import (
    AttemptsReported,
    MembersChanged,
    Message,
    SettingsChanged,
    ShutdownRequested,
    WorkOffered,
)
from itinerary.core.loop.occurrence import NodeContext
from itinerary.core.loop.scheduler import Scheduler
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, NodeError, StoreError
from itinerary.model.definition import Definition
from itinerary.model.heartbeat import HeartbeatReply
from itinerary.model.overload import OverloadExtent
from itinerary.model.queries import StoreStatusQuery
from itinerary.model.rows import NodeNumber
from itinerary.model.settings import ReloadResult, Settings
from itinerary.model.stalled import StalledPartition
from itinerary.ports import Executor, LeavesBehind, Store
from itinerary.runtime.claimer import Claimer
from itinerary.runtime.clock import StoreClock, boot_time
from itinerary.runtime.condition_executor import ConditionExecutor
from itinerary.runtime.gc_tuning import collect_in_quiet
from itinerary.runtime.heartbeat import Calls, Heartbeat
from itinerary.runtime.idle_window import IdleWindow
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import Elsewhere, IndexBuilder
from itinerary.runtime.leftover_cleanup import LeftoverCleanup
from itinerary.runtime.membership import LACKS_MAX, Membership, told_about
from itinerary.runtime.orchestrators import Orchestrators
from itinerary.runtime.overload_monitor import OverloadMonitor, measure_cpu, measure_nothing
from itinerary.runtime.pruner import Pruner
from itinerary.runtime.reaper import Reaper
from itinerary.runtime.reboot_jobs import boot_runs
from itinerary.runtime.rescuer import Rescuer
from itinerary.runtime.settings_reloader import SettingsReloader
from itinerary.runtime.store_retry import StoreRetry
from itinerary.runtime.store_use import StoreUse
from itinerary.runtime.sweeper import Sweeper
from itinerary.runtime.syncer import Syncer
from itinerary.runtime.watchdog import Watchdog
from itinerary.runtime.zone_data import bring_zone_data
from itinerary.schedules import ZoneData, packaged_zone_data
from itinerary.schedules.durations import SECOND

__all__ = ["Node", "NodeResult"]

A = TypeVar("A")

_LEAVE_TIMEOUT = 5.0
"""Seconds that a stopping node tries to report that it leaves."""
_CLOSE_TIMEOUT = 3.0
"""Seconds that executors have to kill running attempts in a node that is not shut down gracefully."""
_RESERVED_FOR_LEAVING = 3.0
"""Seconds of the shutdown timeout that are reserved for writing results and leaving."""
_QUIET = 0.2
"""If nothing is due for this number of seconds, there is time for background work."""


class NodeResult(msgspec.Struct, frozen=True):
    """The result of a node's run."""

    unfinished: int
    """Occurrences that still ran at the shutdown deadline. Other nodes or the next start decide about them."""
    error: str | None


class _Exited(Exception):
    """The exception that ends the task group when the loop has ended."""


class Node:
    """A running scheduler."""

    def __init__(  # noqa: PLR0913 - everything that a node takes from outside
        self,
        store: Store,
        *,
        name: str,
        incarnation: str,
        settings: Settings,
        executor: Executor,
        log: Any,
        about: str = "{}",
        observer: Callable[[Sequence[SchedulerEvent]], None] = lambda _: None,
        knows: Callable[[Definition], bool] = lambda _: True,
        blocked_for: Callable[[], tuple[int, str | None]] | None = None,
        reread: Callable[[], ReloadResult] | None = None,
        zone_data: ZoneData | None = None,
        elapsed: Callable[[], int] = boot_time,
        awake: Callable[[], int] | None = None,
        elsewhere: Elsewhere = asyncio.to_thread,
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Create a node that has not started.

        Args:
            store: The store that the node works on.
            name: The name of the node.
            incarnation: An id of this start of the node.
            settings: The settings of the node.
            executor: Runs the attempts.
            log: The log of the node.
            about: The description that the node publishes, as JSON.
            observer: Receives the scheduler events, on the node's loop.
            knows: True if this node has the code of a job.
            blocked_for: Returns how long the loop of the tasks' coroutines has not answered, and what blocks it.
            reread: Reads the settings again.
            zone_data: The zone data of this node, if not the packaged data.
            elapsed: The node's own clock.
            awake: A clock that stands still while the machine sleeps.
            elsewhere: Runs functions that would block the loop.
            is_gone: True if another node's description proves that its process no longer exists.
        """
        self._store, self.name, self._incarnation, self._about = store, name, incarnation, about
        self._settings, self._log = settings, log
        self._elsewhere, self._observer, self._executor = elsewhere, observer, executor
        self._is_gone = is_gone
        self._zone_data = packaged_zone_data() if zone_data is None else zone_data
        self.clock = StoreClock(elapsed, awake)
        self._cpu = measure_cpu if elapsed is boot_time else measure_nothing
        self._lull = IdleWindow(self.clock.elapsed)
        self.inbox = Inbox(settings.inbox_buffer_size, settings.inbox_send_timeout, log)
        self._plans = PlanCache(Timeline(), shares=settings.limits, knows=knows)
        requirements = ConditionExecutor(executor, store, lambda: self.builder.timeline, self._joined, elsewhere)
        self._rereader = SettingsReloader(reread, self._take_settings, elsewhere=elsewhere, log=log)
        self._watchdog = None if blocked_for is None else Watchdog(blocked_for, log)
        self._orchestrators = Orchestrators(requirements, settings.orchestrator_heartbeat_interval, self.inbox, log)
        self._budget = LogBudget()
        self._replies: set[asyncio.Future[Any]] = set()
        self._is_started = self._is_running = False
        self._ended: NodeResult | None = None
        self._task: asyncio.Task[Any] | None = None
        self._shutdown: asyncio.Task[None] | None = None
        self._ends_by: float | None = None
        """The deadline of a shutdown, in the time of the event loop."""
        self.number: NodeNumber | None = None
        self.stalled: Callable[[], Sequence[StalledPartition]] = tuple
        """Returns the unscheduled partitions of records. The owner of the record schedulers sets this."""

    # -- start -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Prepare the node, in the order of L11. An error stops the start.

        Raises:
            NodeError: If the node has already been started.
        """
        if self._is_started:
            raise NodeError(f"node {self.name} has been started already; make another one to start again")
        self._is_started, self._task = True, asyncio.current_task()
        for warning in self._settings.warnings():
            self._log.warning("settings.questionable", what=warning)
        await self._learn_the_time()
        number = await self._join()
        store, settings, inbox, log = self._store, self._settings, self.inbox, self._log
        self.scheduler = Scheduler(
            settings, NodeContext(number, self.name, settings.kill_grace, settings.late_for, settings.loop_interval)
        )
        self.builder = IndexBuilder(
            store, settings, self.clock, inbox, self._plans, elsewhere=self._elsewhere, log=log, lull=self._lull.comes
        )
        use = StoreUse(self.clock.elapsed)
        self._claimer = Claimer(store, number, settings, self.clock, inbox, log, use)
        self._syncer = Syncer(store, number, settings, inbox, log, use)
        self._keeping_up = OverloadMonitor(self.scheduler, self.clock, use, log, self._observer, self._cpu)
        self._sweeper = Sweeper(
            store,
            number,
            settings,
            self.clock,
            self.builder,
            elsewhere=self._elsewhere,
            log=log,
            notify=self._observer,
            lull=self._lull.comes,
        )
        self._rescuer = Rescuer(
            store, number, settings, self.clock, log, lambda: self.builder.plans, notify=self._observer
        )
        self._roll = Membership(number, settings.node_heartbeat_interval, self.clock)
        self._pruner = Pruner(store, settings, self.clock, lambda: self._roll.is_first, log)
        self._reaper = Reaper(
            store,
            number,
            settings,
            self.clock,
            knows=self._rescuer.knows,
            plans=lambda: self.builder.plans,
            log=log,
            notify=self._observer,
        )
        self._remover = (
            LeftoverCleanup(self._executor, store, lambda: self.builder.timeline, lambda: self._roll.is_first, log)
            if isinstance(self._executor, LeavesBehind)
            else None
        )
        self._watcher = Heartbeat(
            store,
            number,
            settings,
            self.clock,
            inbox,
            calls=Calls(self._heard, self._sweeper.look, self._told),
            log=log,
        )
        try:
            await self._orchestrators.open()
            await store.get_ready()
            await self._bring_zone_data()
            await self.builder.build("the node starts")
            await self.builder.plan_ahead()
            await self._watcher.greet()
            await self._settle_predecessors()
            await self._recover()
            await self._boot()
        except BaseException as error:
            await self._orchestrators.close(_CLOSE_TIMEOUT)
            if isinstance(error, Exception):
                await self._leave()
            raise
        log.info("node.started", node=self.name, number=number, store=store.url, jobs=len(self.builder.timeline.jobs))

    async def _join(self) -> NodeNumber:
        """Join the store.

        A cancellation waits for the answer, so that a node that has joined can report that it leaves.
        """
        joining = asyncio.ensure_future(self._store.join(self._incarnation, self.name, self._about))
        try:
            self.number = await asyncio.shield(joining)
        except asyncio.CancelledError:
            await asyncio.wait([joining], timeout=_CLOSE_TIMEOUT)
            if joining.done() and not joining.cancelled() and joining.exception() is None:
                self.number = joining.result()
            raise
        return self.number

    async def _bring_zone_data(self) -> None:
        await bring_zone_data(
            self._store,
            self.clock,
            self.builder,
            self._zone_data,
            by=f"node {self.name}",
            elsewhere=self._elsewhere,
            log=self._log,
        )

    async def _learn_the_time(self) -> None:
        """Ask several times: the quickest answer gives the best measurement."""
        for _ in range(5):
            asked_at = self.clock.elapsed()
            self.clock.observe((await self._store.read(StoreStatusQuery())).now, asked_at)

    async def _settle_predecessors(self) -> None:
        """Take over the work of nodes whose processes on this machine are gone.

        This happens before the node is ready, so due occurrences do not wait for dead nodes. Without such a proof,
        missed heartbeats decide later.
        """
        self._sweeper.dead |= await self._rescuer.settle_gone(self._is_gone)

    async def _recover(self) -> None:
        """Decide about missed instants. A failed recovery of one job is reported, and the others start (L11)."""
        try:
            await self._sweeper.sweep()
        except ItineraryError as error:
            self._log.error("recovery.failed", error=str(error), hint="it is tried again while the node runs")

    async def _boot(self) -> None:
        """Create the occurrences of jobs that run at each start of a node (S1)."""
        number = self._joined()
        patience = StoreRetry("booting", self._log, self._settings.node_heartbeat_interval)
        while True:
            timeline, now = self.builder.timeline, self.clock.now()
            rows = await patience.ask(
                lambda: boot_runs(self._store, number, self._incarnation, timeline, now),  # noqa: B023 - awaited in this turn
                "boot",
            )
            if rows is not None:
                break
            await self.builder.read()
        if rows:
            await self.inbox.deliver(WorkOffered(rows))

    async def _heard(self, beat: HeartbeatReply, was_out_of_touch: bool) -> None:  # noqa: FBT001 - as in `Calls.on_beat`
        self._sweeper.dead = self._rescuer.handle(beat, was_out_of_touch=was_out_of_touch)
        members = self._roll.handle(beat, shares=len(self.builder.lacks) <= LACKS_MAX)
        if members is not None:
            self._sweeper.is_shared = bool(members.lacks)
            await self.inbox.deliver(MembersChanged(members))

    def _told(self) -> str:
        watcher, interval = self._watcher, self._settings.node_heartbeat_interval
        behind = self._keeping_up.behind
        absences, stalled = watcher.absences, self.stalled()
        return told_about(self._about, self.builder.lacks, watcher.jumps, absences, interval, behind, stalled)

    def _joined(self) -> NodeNumber:
        assert self.number is not None, "it has joined"
        return self.number

    # -- run ---------------------------------------------------------------------------------------------------------

    async def run(self) -> NodeResult:
        """Run until shutdown, or until an error stops the node.

        Returns:
            The number of unfinished occurrences, and the error if there was one.

        Raises:
            NodeError: If the node has not been started, or has already run.
        """
        if self.number is None:
            raise NodeError(f"node {self.name} has not been started; start it first")
        if self._is_running:
            raise NodeError(f"node {self.name} runs already, or has run; make another one to run again")
        self._is_running, self._task = True, asyncio.current_task()
        try:
            async with asyncio.TaskGroup() as group:
                for part in (
                    self._claimer,
                    self._syncer,
                    self._orchestrators,
                    self._watcher,
                    self.builder,
                    self._sweeper,
                    self._rescuer,
                    self._reaper,
                    self._pruner,
                    self._remover,
                    self._watchdog,
                    self._rereader,
                    self._keeping_up,
                ):
                    if part is not None:
                        group.create_task(part.run(), name=f"{self.name} {type(part).__name__}")
                group.create_task(self._loop(), name=f"{self.name} loop")
        except* _Exited:
            pass
        finally:
            log_summaries(self._log, self._budget.close())
            self._hang_up()
            await self._orchestrators.close(self._time_to_close())
        assert self._ended is not None, "the loop said how it ended"
        await self._leave()
        return self._ended

    async def _loop(self) -> None:
        """Run the loop, which waits only for its inbox."""
        took = 0
        scheduler, clock, inbox = self.scheduler, self.clock, self.inbox
        longest = self._settings.loop_interval / SECOND
        while True:
            at = scheduler.next_at
            now = clock.now()
            wait = longest if at is None else min(max((at - now) / SECOND, 0.0), longest)
            is_quiet = wait > _QUIET and not scheduler.is_hurried(now)
            if is_quiet:
                collect_in_quiet()
            self._lull.begin(wait if is_quiet else 0.0)
            messages = await inbox.receive(wait)
            if reports := self._orchestrators.reported():
                messages.append(AttemptsReported(reports))
            begun = clock.elapsed()
            commands = scheduler.iterate(clock.now(), messages, inbox_depth=len(inbox), took=took)
            took = clock.elapsed() - begun
            for command in commands:
                self._carry_out(command)
            if self._budget.owes:
                log_summaries(self._log, self._budget.summaries(clock.elapsed()))

    def _carry_out(self, command: Command) -> None:  # noqa: C901, PLR0912 - a list of all commands
        match command:
            case StartRuns():
                self._claimer.start(command)
            case Launch() | Stop() | Kill() | Follow() | Forget():
                self._orchestrators.carry_out(command)
            case Write(changes, is_urgent):
                self._syncer.write(changes, is_urgent=is_urgent)
            case Claim():
                self._claimer.claim(command)
            case Log(level, event, fields):
                self._say(level, event, fields)
            case Announce(news):
                self._observer(news)
            case KeepStatistics(row, counted):
                self._syncer.keep(row)
                self._observer((counted,))
            case Reply(to, answer):
                _answer(to, answer)
            case ReadRows(refs):
                self._watcher.look(refs)
            case RebuildIndex(why):
                self.builder.rebuild(why)
            case Release():
                self._claimer.release(command)
            case TakeUp():
                self._claimer.take_up(command)
            case Exit(unfinished, error):
                self._ended = NodeResult(unfinished, error)
                raise _Exited
            case _:
                assert_never(command)

    def _say(self, level: LogLevel, event: str, fields: Mapping[str, Any]) -> None:
        """Write a log line. Lines about single runs are limited per second, and the rest are only counted."""
        about = fields.get("run")
        if about is None or self._budget.admits(event, str(about), self.clock.elapsed(), level.value):
            getattr(self._log, level.value)(event, **fields)

    @property
    def backlog(self) -> tuple[int, int]:
        """The number of updates, and of statistics rows, that are not written yet."""
        return self._syncer.unwritten_updates, self._syncer.unwritten_statistics

    @property
    def behind(self) -> OverloadExtent | None:
        """The lateness of the node; None if it keeps up."""
        return self._keeping_up.behind

    @property
    def clock_jumps(self) -> int:
        """The number of times that the node's clock has jumped or stood still."""
        return self._watcher.jumps.count

    # -- requests ----------------------------------------------------------------------------------------------------

    async def ask(self, message: Callable[[asyncio.Future[A]], Message]) -> A:
        """Send the loop a message that carries a reply, and wait for the answer.

        Args:
            message: Builds the message from the future of its reply.

        Raises:
            NodeError: If the node is too busy to answer, or has ended.
        """
        reply: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._replies.add(reply)
        try:
            if not await self.inbox.send(message(reply)):
                raise NodeError(f"node {self.name} is too busy to answer, or has ended; try again")
            return await reply
        finally:
            self._replies.discard(reply)

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self._settings

    def reread(self) -> None:
        """Read the settings again, and apply those that can change while the node runs (U13)."""
        self._rereader.ask()

    async def _take_settings(self, settings: Settings) -> None:
        self._settings = settings
        for part in (self.inbox, self.builder, self._syncer, self._reaper, self._pruner):
            part.take_settings(settings)
        await self.inbox.deliver(SettingsChanged(settings))

    # -- end ---------------------------------------------------------------------------------------------------------

    def shut_down(self, why: str = "it was asked to") -> None:
        """Shut down gracefully. A second call stops the node at once."""
        if self._shutdown is not None:
            self.abandon()
            return
        self._ends_by = asyncio.get_running_loop().time() + self._settings.shutdown_timeout / SECOND
        self._shutdown = asyncio.get_running_loop().create_task(self.inbox.deliver(ShutdownRequested(why)))

    def abandon(self) -> None:
        """Stop at once, without writing or releasing anything."""
        if self._task is not None:
            self._task.cancel()

    def unfinished(self) -> list[str]:
        """Return the ids of occurrences that have started here and have not ended. Callable from any thread."""
        return self.scheduler.unfinished() if self.number is not None and self._is_running else []

    def _time_to_close(self) -> float:
        """Return how long executors may take to close, in seconds."""
        if self._ends_by is None or self._ended is None:
            return _CLOSE_TIMEOUT
        left = self._ends_by - asyncio.get_running_loop().time()
        return max(left - _RESERVED_FOR_LEAVING, 1.0)

    def _time_to_leave(self) -> float:
        """Return how long the last writes and leaving may take, in seconds. The store has to be closed after that."""
        if self._ends_by is None:
            return _LEAVE_TIMEOUT
        return max(min(self._ends_by - asyncio.get_running_loop().time() - 0.5, _LEAVE_TIMEOUT), 1.0)

    def _hang_up(self) -> None:
        """Close the inbox, and end all waits for an answer with an error."""
        self.inbox.close()
        for reply in self._replies:
            if not reply.done():
                reply.set_exception(NodeError(f"node {self.name} has ended, and answers no more"))
                reply.exception()  # a sender still in the queue gets its error from the inbox, and never reads this one

    async def _leave(self) -> None:
        """Write the remaining changes, and report that this node leaves.

        Give up if the store does not answer in time.
        """
        number, patience, limit = self._joined(), StoreRetry("leaving", self._log), self._time_to_leave()
        try:
            async with asyncio.timeout(limit):
                await self._claimer.release_all(patience)
                await self._syncer.flush(patience)
                await patience.ask(lambda: self._store.leave(number), "leave")
        except (TimeoutError, StoreError) as error:
            why = str(error) or f"the store did not answer within {limit:g} s"
            self._log.warning("node.left_without_a_word", error=why, hint="others will find out by its silence")
        self._log.info("node.ended", node=self.name, unfinished=self._ended and self._ended.unfinished)


def _answer(to: object, answer: Any) -> None:
    assert isinstance(to, asyncio.Future), "who asks waits on a future"
    if not to.done():
        to.set_result(answer)
