"""A node: one running scheduler, put together.

    start     join the store, learn its time, build the first index,               (an error here stops the start)
              settle the work of a killed predecessor, recover
    run       the loop and everything around it, until it is shut down
    shut_down take no new work, give back what has not started, end what runs as `on_shutdown` says, leave

All components run in one task group: if one of them fails for a reason that nobody foresaw, the others are ended and
the node stops with that error, rather than living on without one of its organs.
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
    Level,
    Log,
    ReadRows,
    RebuildIndex,
    Release,
    Reply,
    StartRuns,
    Stop,
    TakeUp,
    Write,
)
from itinerary.core.loop.events import News
from itinerary.core.loop.log_budget import LogBudget, log_summaries
from itinerary.core.loop.messages import (
    AttemptsReported,
    MembersChanged,
    Message,
    SettingsChanged,
    ShutdownRequested,
    WorkOffered,
)
from itinerary.core.loop.occurrence import Here
from itinerary.core.loop.scheduler import Scheduler
from itinerary.core.timeline.job_plan import PlanBook
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError, NodeError, StoreError
from itinerary.model.definition import Definition
from itinerary.model.heartbeat import Beat
from itinerary.model.overload import Behind
from itinerary.model.queries import Standing
from itinerary.model.rows import NodeNumber
from itinerary.model.settings import Reread, Settings
from itinerary.model.stalled import StalledPartition
from itinerary.ports import Executor, LeavesBehind, Store
from itinerary.runtime.claimer import Claimer
from itinerary.runtime.clock import StoreClock, boot_time
from itinerary.runtime.condition_executor import Requirements
from itinerary.runtime.gc_tuning import collect_in_quiet
from itinerary.runtime.heartbeat import Calls, Watcher
from itinerary.runtime.idle_window import Lull
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.index_builder import Elsewhere, IndexBuilder
from itinerary.runtime.leftover_cleanup import Remover
from itinerary.runtime.membership import LACKS_MAX, Roll, told_about
from itinerary.runtime.orchestrators import Orchestrators
from itinerary.runtime.overload_monitor import KeepingUp, measure_cpu, measure_nothing
from itinerary.runtime.pruner import Pruner
from itinerary.runtime.reaper import Reaper
from itinerary.runtime.reboot_jobs import boot_runs
from itinerary.runtime.rescuer import Rescuer
from itinerary.runtime.settings_reloader import Rereader
from itinerary.runtime.store_retry import Patience
from itinerary.runtime.store_use import StoreUse
from itinerary.runtime.sweeper import Sweeper
from itinerary.runtime.syncer import Syncer
from itinerary.runtime.watchdog import Watchdog
from itinerary.runtime.zone_data import bring_zone_data
from itinerary.schedules import ZoneData, packaged_zone_data
from itinerary.schedules.durations import SECOND

__all__ = ["Ended", "Node"]

A = TypeVar("A")

_LEAVE_TIMEOUT = 5.0
"""How long a node that ends tries to say so."""
_CLOSE_TIMEOUT = 3.0
"""How long executors have to end by force what still runs, in a node that is not shut down gracefully."""
_RESERVED_FOR_LEAVING = 3.0
"""What is kept of the time of a shutdown for writing results and leaving."""
_QUIET = 0.2
"""If nothing is due for so many seconds, there is time for what can be done at any time."""


class Ended(msgspec.Struct, frozen=True):
    """How a node ended."""

    unfinished: int
    """What still ran when its time was over: other nodes or the next start settle it."""
    error: str | None


class _Exited(Exception):
    """Ends the task group: the loop is done."""


class Node:
    """One running scheduler."""

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
        observer: Callable[[Sequence[News]], None] = lambda _: None,
        knows: Callable[[Definition], bool] = lambda _: True,
        blocked_for: Callable[[], tuple[int, str | None]] | None = None,
        reread: Callable[[], Reread] | None = None,
        zone_data: ZoneData | None = None,
        elapsed: Callable[[], int] = boot_time,
        awake: Callable[[], int] | None = None,
        elsewhere: Elsewhere = asyncio.to_thread,
        is_gone: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`knows` says whether this node has the code of a job; `observer` is told what happens, on the engine's loop;
        `blocked_for` says for how long the loop of the tasks' coroutines has not answered; `reread` reads the settings
        again; `zone_data` is what this node brings, if not the packaged one; `elapsed` is the node's own clock, and
        `awake` one that stands still while the machine sleeps; `elsewhere` runs what would hold up the loop; `is_gone`
        says of what another node tells about itself whether its process provably no longer exists."""
        self._store, self.name, self._incarnation, self._about = store, name, incarnation, about
        self._settings, self._log = settings, log
        self._elsewhere, self._observer, self._executor = elsewhere, observer, executor
        self._is_gone = is_gone
        self._zone_data = packaged_zone_data() if zone_data is None else zone_data
        self.clock = StoreClock(elapsed, awake)
        self._cpu = measure_cpu if elapsed is boot_time else measure_nothing
        self._lull = Lull(self.clock.elapsed)
        self.inbox = Inbox(settings.inbox_buffer_size, settings.inbox_send_timeout, log)
        self._plans = PlanBook(Timeline(), shares=settings.limits, knows=knows)
        requirements = Requirements(executor, store, lambda: self.builder.timeline, self._joined, elsewhere)
        self._rereader = Rereader(reread, self._take_settings, elsewhere=elsewhere, log=log)
        self._watchdog = None if blocked_for is None else Watchdog(blocked_for, log)
        self._orchestrators = Orchestrators(requirements, settings.orchestrator_heartbeat_interval, self.inbox, log)
        self._budget = LogBudget()
        self._replies: set[asyncio.Future[Any]] = set()
        self._is_started = self._is_running = False
        self._ended: Ended | None = None
        self._task: asyncio.Task[Any] | None = None
        self._shutdown: asyncio.Task[None] | None = None
        self._ends_by: float | None = None
        """When a shutdown has to be over, on the time of the loop."""
        self.number: NodeNumber | None = None
        self.stalled: Callable[[], Sequence[StalledPartition]] = tuple
        """Returns the partitions of records that are not scheduled here: set by whoever runs the record schedulers."""

    # -- start -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Get ready, in the order of L11. What fails here stops the start."""
        if self._is_started:
            raise NodeError(f"node {self.name} has been started already; make another one to start again")
        self._is_started, self._task = True, asyncio.current_task()
        for warning in self._settings.warnings():
            self._log.warning("settings.questionable", what=warning)
        await self._learn_the_time()
        number = await self._join()
        store, settings, inbox, log = self._store, self._settings, self.inbox, self._log
        self.scheduler = Scheduler(
            settings, Here(number, self.name, settings.kill_grace, settings.late_for, settings.loop_interval)
        )
        self.builder = IndexBuilder(
            store, settings, self.clock, inbox, self._plans, elsewhere=self._elsewhere, log=log, lull=self._lull.comes
        )
        use = StoreUse(self.clock.elapsed)
        self._claimer = Claimer(store, number, settings, self.clock, inbox, log, use)
        self._syncer = Syncer(store, number, settings, inbox, log, use)
        self._keeping_up = KeepingUp(self.scheduler, self.clock, use, log, self._observer, self._cpu)
        self._sweeper = Sweeper(
            store,
            number,
            settings,
            self.clock,
            self.builder,
            elsewhere=self._elsewhere,
            log=log,
            tell=self._observer,
            lull=self._lull.comes,
        )
        self._rescuer = Rescuer(
            store, number, settings, self.clock, log, lambda: self.builder.plans, tell=self._observer
        )
        self._roll = Roll(number, settings.node_heartbeat_interval, self.clock)
        self._pruner = Pruner(store, settings, self.clock, lambda: self._roll.is_first, log)
        self._reaper = Reaper(
            store,
            number,
            settings,
            self.clock,
            knows=self._rescuer.knows,
            plans=lambda: self.builder.plans,
            log=log,
            tell=self._observer,
        )
        self._remover = (
            Remover(self._executor, store, lambda: self.builder.timeline, lambda: self._roll.is_first, log)
            if isinstance(self._executor, LeavesBehind)
            else None
        )
        self._watcher = Watcher(
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
        """Join the store. A cancellation waits for the answer: a node that has joined can then say that it leaves."""
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
        """Ask a few times: the quickest answer says it best."""
        for _ in range(5):
            asked_at = self.clock.elapsed()
            self.clock.observe((await self._store.read(Standing())).now, asked_at)

    async def _settle_predecessors(self) -> None:
        """Take the work of nodes whose processes on this machine are gone: it is settled before this node is ready, so
        nothing that is due now has to wait for them. Without such a proof, their silence decides later."""
        self._sweeper.dead |= await self._rescuer.settle_gone(self._is_gone)

    async def _recover(self) -> None:
        """Decide what was missed. One job's failing recovery is reported, and the rest start (L11)."""
        try:
            await self._sweeper.sweep()
        except ItineraryError as error:
            self._log.error("recovery.failed", error=str(error), hint="it is tried again while the node runs")

    async def _boot(self) -> None:
        """Have run what wants to run at each start of a node (S1)."""
        number = self._joined()
        patience = Patience("booting", self._log, self._settings.node_heartbeat_interval)
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

    async def _heard(self, beat: Beat, was_out_of_touch: bool) -> None:  # noqa: FBT001 - as the watcher tells it
        self._sweeper.dead = self._rescuer.hear(beat, was_out_of_touch=was_out_of_touch)
        members = self._roll.hear(beat, shares=len(self.builder.lacks) <= LACKS_MAX)
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

    async def run(self) -> Ended:
        """Run until it is shut down, or cannot go on."""
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
        """The loop waits for its inbox and nothing else."""
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
                self._ended = Ended(unfinished, error)
                raise _Exited
            case _:
                assert_never(command)

    def _say(self, level: Level, event: str, fields: Mapping[str, Any]) -> None:
        """Write a line of the log. Of lines about single runs only so many a second are written; the others count."""
        about = fields.get("run")
        if about is None or self._budget.admits(event, str(about), self.clock.elapsed(), level.value):
            getattr(self._log, level.value)(event, **fields)

    @property
    def backlog(self) -> tuple[int, int]:
        """How many updates, and how many rows of statistics, are not written yet."""
        return self._syncer.unwritten_updates, self._syncer.unwritten_statistics

    @property
    def behind(self) -> Behind | None:
        """How far it is behind what is due; None: it keeps up."""
        return self._keeping_up.behind

    @property
    def clock_jumps(self) -> int:
        """How often its time has jumped, or stood still."""
        return self._watcher.jumps.count

    # -- requests ----------------------------------------------------------------------------------------------------

    async def ask(self, message: Callable[[asyncio.Future[A]], Message]) -> A:
        """Send the loop a message that carries a reply, and wait for the answer."""
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
        """What it goes by now."""
        return self._settings

    def reread(self) -> None:
        """Read the settings again, and go by what can be changed while it runs (U13)."""
        self._rereader.ask()

    async def _take_settings(self, settings: Settings) -> None:
        self._settings = settings
        for part in (self.inbox, self.builder, self._syncer, self._reaper, self._pruner):
            part.take_settings(settings)
        await self.inbox.deliver(SettingsChanged(settings))

    # -- end ---------------------------------------------------------------------------------------------------------

    def shut_down(self, why: str = "it was asked to") -> None:
        """End gracefully. Asked a second time, it ends at once."""
        if self._shutdown is not None:
            self.abandon()
            return
        self._ends_by = asyncio.get_running_loop().time() + self._settings.shutdown_timeout / SECOND
        self._shutdown = asyncio.get_running_loop().create_task(self.inbox.deliver(ShutdownRequested(why)))

    def abandon(self) -> None:
        """End at once, and leave everything as it lies."""
        if self._task is not None:
            self._task.cancel()

    def unfinished(self) -> list[str]:
        """The ids of what has started here and has not ended. From any thread."""
        return self.scheduler.unfinished() if self.number is not None and self._is_running else []

    def _time_to_close(self) -> float:
        """How long executors may take to close, in seconds."""
        if self._ends_by is None or self._ended is None:
            return _CLOSE_TIMEOUT
        left = self._ends_by - asyncio.get_running_loop().time()
        return max(left - _RESERVED_FOR_LEAVING, 1.0)

    def _time_to_leave(self) -> float:
        """How long writing what is left, and leaving, may take, in seconds: the store has to be closed after that."""
        if self._ends_by is None:
            return _LEAVE_TIMEOUT
        return max(min(self._ends_by - asyncio.get_running_loop().time() - 0.5, _LEAVE_TIMEOUT), 1.0)

    def _hang_up(self) -> None:
        """Nobody reads the inbox any more: who waits for an answer, or still wants to send something, is told so."""
        self.inbox.close()
        for reply in self._replies:
            if not reply.done():
                reply.set_exception(NodeError(f"node {self.name} has ended, and answers no more"))
                reply.exception()  # who is still in line is told there, and never looks here

    async def _leave(self) -> None:
        """Write what is left, and say that this node is gone; both only if the store answers soon."""
        number, patience, limit = self._joined(), Patience("leaving", self._log), self._time_to_leave()
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
