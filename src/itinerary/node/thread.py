"""One start of an app: a thread with an event loop of its own, and in it the store, the node and the desk.

    the program's threads and loops                  the engine's thread
    start()                              ──────►     open the store, register, join, recover
    ready (or the error that it was)     ◄──────
    submit(desk.pause(…))                ──────►     runs there; its answer comes back as a future
    shut_down(), abandon()               ──────►     ends; `ended` says how

The loop is made before the thread is. A request to end that comes in the first moments waits there, and ends the start:
whatever was opened is closed again, and a node that has joined says that it leaves.

The engine has a loop to itself, so nothing that a program or a task does can hold it up, and it holds up nobody. A
store belongs to that loop; nobody else touches it.

What can go wrong: the start (`ready` has the error, and everything that was opened is closed again), and the node (it
stops with an error that `ended` has). The thread is a daemon, since a task that never returns must not keep a program
from ending. Each step of the end has a limit, so that one that hangs does not keep the others from their turn;
`still_running` says which one it is, and what else has not ended.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeVar
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from itinerary.config.alerts import alerts_of
from itinerary.config.configuration import Configuration
from itinerary.core.loop.events import News
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ConfigError, NodeError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.definitions import read_task
from itinerary.executors.pods.definition import require_library
from itinerary.executors.router import ExecutorOptions
from itinerary.executors.run_as import account_of
from itinerary.jobs.declaration import Declaration, Rules
from itinerary.jobs.function_names import main_module_paths
from itinerary.jobs.registration import register
from itinerary.jobs.undeclared import Home, UndeclaredJobs
from itinerary.model.definition import Definition
from itinerary.model.queries import Answer, Query
from itinerary.model.settings import Reread
from itinerary.node.environment import Ground
from itinerary.node.event_loop import close_loop, ended_within, names_of, new_loop, threads_left
from itinerary.node.health_listener import NodeHealth
from itinerary.node.record_handlers import Offices
from itinerary.node.task_transactions import transaction_factory
from itinerary.observe.alerts import Alerts
from itinerary.observe.counters import Tally
from itinerary.observe.health import Phase
from itinerary.observe.listen_address import ListenAt
from itinerary.observe.metrics import Gauges
from itinerary.observe.run_log import RunLog
from itinerary.observe.start_rate import Pulse
from itinerary.operations.node_client import Desk
from itinerary.ports import Executor, Store
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.service import RecordsService
from itinerary.runtime.machine import is_gone, this_process
from itinerary.runtime.node import Ended, Node
from itinerary.schedules.durations import SECOND
from itinerary.signal_safe_wait import join_thread

__all__ = ["Engine", "Observer", "installed_version"]

T = TypeVar("T")

_ANSWER_TIMEOUT: Final = 1.0
_STEP_TIMEOUT: Final = 3.0
"""How long parts that were cancelled have to end, and a node to say that it leaves, in seconds."""
Observer = Callable[[Sequence[News]], None]


class Engine:
    """A node in a thread of its own. Made, started and ended once."""

    def __init__(  # noqa: PLR0913 - everything that a start takes from outside
        self,
        configuration: Configuration,
        rules: Rules,
        declared: Mapping[str, Declaration],
        *,
        by: str,
        log: Any,
        loop: asyncio.AbstractEventLoop | None = None,
        observers: Sequence[Observer] = (),
        paths: Mapping[str, str] | None = None,
        reread: Callable[[], Reread] | None = None,
        desks: Mapping[str, DeskDeclaration] | None = None,
        ground: Ground | None = None,
        logs_runs: bool = True,
        home: Home | None = None,
    ) -> None:
        """`logs_runs`: whether every end of a run is an event of the log.

        `loop` is where the program's coroutines run; none: on a worker loop of their own. `reread` reads the
        settings again. `ground` is what it stands on, if not on the real world. `home` is the source of the jobs."""
        self._ground = Ground() if ground is None else ground
        self.configuration, self._rules, self._declared = configuration, rules, dict(declared)
        self._registry, self._incarnation = rules.registry, str(uuid4())
        self._uses_pods = any(declaration.has_pods for declaration in self._declared.values())
        self._by, self._log, self._loop_of_tasks, self._observers = by, log, loop, tuple(observers)
        self._paths, self._reread = {**main_module_paths(), **(paths or {})}, reread
        self._desks = dict(desks or {})
        self._home = home
        self.undeclared: UndeclaredJobs | None = None
        """The jobs that the source no longer declares, and what became of them at the start; None: not asked for."""
        self._records: RecordsService | None = None
        self._records_end: asyncio.Task[list[str]] | None = None
        self._alerts: Alerts | None = None
        self._early: list[News] = []
        """What the recovery at the start tells of, before there are alerts."""
        self._thread = threading.Thread(target=self._live, name="itinerary-engine", daemon=True)
        self._is_watched = ground is None
        """Whether people look at it: not in a rehearsal, which must reach nobody."""
        at = configuration.health if self._is_watched else None
        self._tally: Tally | None = None
        self._tally_lock = threading.Lock()
        self._health = None if at is None else NodeHealth(configuration, at, self, self.tally(), log)
        self.pulse = Pulse()
        """What it started, and how late; from any thread."""
        if self._is_watched:
            self._observers = (*self._observers, self.pulse.hear)
        self._run_log = RunLog(log, configuration.name) if logs_runs and self._is_watched else None
        if self._run_log is not None:
            self._observers = (*self._observers, self._run_log.hear)
        self._wants_reread = self._is_ending = self._is_cut_short = False
        self.step = "starting"
        """What the engine is doing, in words; from any thread."""
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._whole: asyncio.Task[Any] | None = None
        self._main: asyncio.Task[Ended] | None = None
        self._node: Node | None = None
        self._desk: Desk | None = None
        self.ready: Future[None] = Future()
        """Set when the node has started; its error, if it could not."""
        self.ended: Future[Ended | None] = Future()
        """How it ended; its error, if it could not go on. None if it was ended at once."""
        for future in (self.ready, self.ended):
            future.set_running_or_notify_cancel()  # who no longer waits for one must not keep others from hearing of it

    # -- from any thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; wait for `ready` to know that it has. Raises NodeError if nobody could ask how it is."""
        if self._health is not None:
            at = self._health.start()
            self._log.info("health.listening", at=str(at))
        self._loop = new_loop()
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no thread
            self._loop.close()
            raise

    @property
    def desk(self) -> Desk:
        """What is asked of the node. Its timeline may be looked at from anywhere; its calls go through `submit`."""
        if self._desk is None or self.ended.done():
            raise NodeError("the node does not run; ask inside async with app.running(), or while app.run() runs")
        return self._desk

    @property
    def records(self) -> RecordsService:
        """The desks of the node. Asked on its loop."""
        if self._records is None:
            raise NodeError("the node has no desks, or has not started; declare them with app.records(…)")
        return self._records

    @property
    def node(self) -> Node:
        """The node itself, once it has started. It belongs to the engine's loop."""
        return self._running_node()

    @property
    def has_desks(self) -> bool:
        """Whether records are worked on here."""
        return bool(self._desks)

    @property
    def store(self) -> Store:
        """Its store, which belongs to its loop."""
        if self._store is None:
            raise NodeError("the node does not run, and its store is not open")
        return self._store

    @property
    def store_url(self) -> str:
        """Where the store is, without a password."""
        return self._store_url

    _store_url = ""

    def is_here(self) -> bool:
        """Whether the caller is a coroutine on the engine's own loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the engine's loop."""
        loop = self._loop
        if loop is None or loop.is_closed() or self.ended.done():
            call.close()
            raise NodeError("the node does not run, and nothing can be asked of it")
        answer = asyncio.run_coroutine_threadsafe(call, loop)
        self._ground.asked(answer)
        return answer

    def shut_down(self, why: str) -> None:
        """End gracefully; asked a second time, at once."""
        self._is_ending = True
        self._tell(lambda: self._shut_down(why))

    def abandon(self) -> None:
        """End at once, and leave everything as it lies."""
        self._tell(self._cancel)

    def reread(self) -> None:
        """Read the settings again: now, or, if it is still starting, when it has."""
        self._wants_reread = True
        self._tell(self._pass_on_reread)

    @property
    def phase(self) -> Phase:
        """How far it is."""
        if self.ended.done():
            return Phase.ENDED
        if not self.ready.done():
            return Phase.STARTING
        return Phase.ENDING if self._is_ending else Phase.RUNNING

    def ask(self, answer: Callable[[], None]) -> bool:
        """Have the engine's loop call something. False: there is no such loop, or not any more."""
        return self._tell(answer)

    @property
    def health_at(self) -> ListenAt | None:
        """Where probes are answered."""
        return None if self._health is None else self._health.at

    def tally(self) -> Tally:
        """What is counted of the node: since it was made, if it answers probes; else since somebody has asked."""
        with self._tally_lock:
            if self._tally is None:
                self._tally = Tally(self.configuration.settings.metrics_jobs_max)
                self._observers = (*self._observers, self._tally.hear)
            return self._tally

    def timeline(self) -> Timeline | None:
        """As far as the node has read it; None while it starts."""
        return None if self._node is None or self.phase is Phase.STARTING else self._node.builder.timeline

    def gauges(self) -> Gauges:
        """How it is, as far as that can be seen from any thread."""
        node = self._node
        if node is None or self.phase is Phase.STARTING:
            return Gauges()
        desks = {} if self._records is None else self._records.figures()
        return Gauges(
            len(node.inbox),
            node.backlog[0],
            node.clock_jumps,
            {} if self._alerts is None else dict(self._alerts.counts),
            desks,
            node.behind,
            tuple(node.stalled()),
        )

    def read(self, query: Query[Answer]) -> Future[Answer]:
        """Ask its store, on its loop."""
        return self.submit(self.store.read(query))

    def failure(self) -> NodeError | None:
        """Why it could not go on, once it has ended; None: it ended because it was asked to."""
        error = self.ended.exception()
        if error is None:
            ended = self.ended.result()
            said = None if ended is None else ended.error
            return None if said is None else NodeError(f"the node could not go on: {said}")
        failure = NodeError(f"the node stopped: {'; '.join(_told(error))}")
        failure.__cause__ = error
        return failure

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to be gone. False if it is not after so many seconds."""
        return join_thread(self._thread, timeout)

    @property
    def shutdown_timeout(self) -> int:
        """How long a whole shutdown may take, in microseconds."""
        settings = self.configuration.settings if self._node is None else self._node.settings
        return settings.shutdown_timeout

    def still_running(self) -> list[str]:
        """What has not ended yet, in words: the step that the engine is at, occurrences, handlers, and threads."""
        loop, found = self._loop, list[str]()
        if not self.ended.done():
            found.append(f"the engine is {self.step}")
            found += [] if (blocked := self._blocked_in()) is None else [blocked]
            found += [f"occurrence {name}" for name in ([] if self._node is None else self._node.unfinished())]
            found += [f"handler of {name}" for name in ([] if self._records is None else self._records.in_hand())]
            found += [f"component {name}" for name in ([] if loop is None else names_of(loop))]
        return found + [f"thread {name}" for name in threads_left()]

    def _blocked_in(self) -> str | None:
        """Where the engine's thread is, if its loop does not answer; None if it does, or is gone."""
        has_answered = threading.Event()
        if not self._tell(has_answered.set) or has_answered.wait(_ANSWER_TIMEOUT):
            return None
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the documented way to look
        if frame is None:
            return None
        place = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        return f"the engine's event loop has not answered for {_ANSWER_TIMEOUT:g} s, and is in {place}"

    def _tell(self, what: Callable[[], None]) -> bool:
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        try:
            loop.call_soon_threadsafe(what)
        except RuntimeError:
            return False  # it has ended in this very moment
        return True

    # -- in the engine's thread --------------------------------------------------------------------------------------

    def _live(self) -> None:
        assert self._loop is not None, "made at the start"
        try:
            try:
                ended = self._loop.run_until_complete(self._run())
            finally:
                self.step = "closing its event loop"
                close_loop(self._loop, self._log)
        except asyncio.CancelledError:
            self._fail(NodeError("the node was ended before it had started"))
            self.ended.set_result(None)
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits for the end
            self._fail(error)
            self.ended.set_exception(error)
        else:
            self.ended.set_result(ended)
        finally:
            if self._run_log is not None:
                self._run_log.close()
            if self._health is not None:
                self._health.stop()

    async def live_here(self) -> None:
        """Live on the loop that this runs on, in place of a thread of its own. What goes wrong is told as always."""
        self._loop = asyncio.get_running_loop()
        try:
            ended = await self._run()
        except Exception as error:  # noqa: BLE001 - it is raised where somebody waits for the end
            self._fail(error)
            self.ended.set_exception(error)
        else:
            self.ended.set_result(ended)

    def gone(self) -> None:
        """Nothing of it will run again: what it lived in was killed."""
        self._fail(NodeError("the node was killed before it had started"))
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)

    async def _run(self) -> Ended:
        self._whole = asyncio.current_task()
        self._check_wanted()
        if self._uses_pods and self._is_watched:
            require_library()
        account_of(self.configuration.user, self.configuration.group)  # refused now, and not at the first command
        self.step = "opening the store"
        opened = self._ground.store(self.configuration.store)
        opened.log_to(self._log)
        async with opened as store:
            self._store, self._store_url = store, store.url
            try:
                return await self._run_on(store)
            finally:
                self.step = f"closing the store {store.url}"

    async def _run_on(self, store: Store) -> Ended:
        self.step = "starting the node"
        self.undeclared = await register(
            store, self._declared, by=self._by, log=self._log, zone_data=self._rules.zone_data, home=self._home
        )
        router, coroutines = self._executors(store)
        node = self._node = self._made(store, router, coroutines)
        self._pass_on_reread()
        self._desk = Desk(store, node, self._by, self._rules)
        try:
            await node.start()
            self._check_wanted()
        except GeneratorExit:
            raise  # the loop is gone, as in a crash that a test plays: nothing can be awaited
        except BaseException:
            self.step = "ending its start"
            await self._undo_start(store, node, router)
            raise
        offices = Offices(self._desks, coroutines)
        if self._desks:
            slow_after = node.settings.node_heartbeat_interval
            self._records = offices.service(store, node.number, node.clock, self._log, slow_after=slow_after)
        if self._records is not None:
            node.stalled = self._records.stalled
        if self._is_watched:
            self._alerts = alerts_of(self.configuration, store, node, self._log)
        if self._alerts is not None:
            self._alerts.hear(self._early)
        self._early.clear()
        self._main = asyncio.create_task(node.run())
        await asyncio.sleep(0)  # it runs: from here on it can be shut down
        self.step = "running"
        self.ready.set_result(None)
        try:
            return await self._run_with_others(self._main)
        finally:
            self.step = "ending the node"
            self._main.cancel()
            await ended_within(_STEP_TIMEOUT, self._main)
            if self._alerts is not None:
                await self._alerts.end()
            offices.close()

    def _check_wanted(self) -> None:
        """Raise CancelledError if the engine was told to end before it could be cancelled."""
        if self._is_cut_short:
            raise asyncio.CancelledError

    async def _undo_start(self, store: Store, node: Node, router: Executor) -> None:
        """Close what a start has opened, and say that the node leaves, if the store answers soon."""
        await ended_within(_STEP_TIMEOUT, asyncio.ensure_future(router.close()))
        if node.number is not None:
            await ended_within(_STEP_TIMEOUT, asyncio.ensure_future(store.leave(node.number)))

    async def _run_with_others(self, main: asyncio.Task[Ended]) -> Ended:
        """The node, its desks and its alerts: if one of them cannot go on, none does."""
        others = [
            asyncio.create_task(part.run(), name=type(part).__name__)
            for part in (self._records, self._alerts)
            if part is not None
        ]
        try:
            await asyncio.wait([main, *others], return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                if other.done():
                    other.result()  # it runs for ever, so this raises
            self._end_records()
            self.step = "waiting for handlers of records"
            handlers = [] if self._records_end is None else await self._records_end
            self.step = "waiting for the node"
            return self._reported(await main, handlers)
        finally:
            for other in others:
                other.cancel()
            await ended_within(_STEP_TIMEOUT, *others)

    def _reported(self, ended: Ended, handlers: Sequence[str]) -> Ended:
        """How the node ended, with the handlers that had not; what still ran is in the log."""
        occurrences = self._running_node().unfinished() if ended.unfinished else []
        if occurrences or handlers:
            self._log.warning(
                "node.ended_unfinished",
                occurrences=occurrences,
                handlers=list(handlers),
                hint="it still ran when the time for the shutdown was over; other nodes or the next start settle it",
            )
        return replace(ended, unfinished=ended.unfinished + len(handlers))

    def _end_records(self) -> None:
        """Let handlers finish and give partitions back, once."""
        if self._records is not None and self._records_end is None:
            grace = self._running_node().settings.shutdown_grace_period / SECOND
            self._records_end = asyncio.get_running_loop().create_task(self._records.end(grace), name="records' end")

    def _executors(self, store: Store) -> tuple[Executor, CoroutineExecutor]:
        return self._ground.executors(
            self._registry,
            ExecutorOptions(
                allowed_hosts=self.configuration.allow_hosts,
                policy=self.configuration.task_policy,
                paths=self._paths or None,
                node=self._incarnation,
                kill_grace=self.configuration.settings.kill_grace / SECOND,
                uses_pods=self._uses_pods,
                pod_namespace=self.configuration.pod_namespace,
                user=self.configuration.user,
                group=self.configuration.group,
            ),
            loop=self._loop_of_tasks,
            transaction=transaction_factory(store, self._running_node),
        )

    def _made(self, store: Store, router: Executor, coroutines: CoroutineExecutor) -> Node:
        configuration = self.configuration
        return Node(
            store,
            name=configuration.name,
            incarnation=self._incarnation,
            settings=configuration.settings,
            executor=router,
            log=self._log,
            about=_about(),
            observer=self._observe,
            knows=self._knows,
            blocked_for=coroutines.blocked_for,
            reread=self._reread,
            elapsed=self._ground.elapsed,
            awake=self._ground.awake,
            elsewhere=self._ground.elsewhere,
            zone_data=self._rules.zone_data,
            is_gone=is_gone,
        )

    def _running_node(self) -> Node:
        assert self._node is not None, "tasks run after the start"
        return self._node

    def _observe(self, news: Sequence[News]) -> None:
        assert self._desk is not None, "nothing happens before the start"
        self._desk.hear(news)
        if self._alerts is not None:
            self._alerts.hear(news)
        elif self.configuration.alert_urls and not self.ready.done():
            self._early.extend(news)
        for observer in self._observers:
            observer(news)

    def _knows(self, definition: Definition) -> bool:
        """Whether this node has a job's code (D9). One that lacks it claims nothing of that job, and says so."""
        try:
            for task in definition.tasks:
                executor = task.overrides.executor or definition.overrides.executor or "auto"
                read_task(task.definition, executor, self._registry)
                if task.outlives_its_node and self._is_watched:
                    require_library()
            for name in (*definition.on_start, *definition.on_complete):
                self._registry.check(name)
        except ConfigError as error:
            tasks = [task.name for task in definition.tasks]
            self._log.warning("job.code_missing", tasks=tasks, reason=str(error), hint="this node leaves it to others")
            return False
        return True

    def _pass_on_reread(self) -> None:
        if self._node is not None and self._wants_reread:
            self._wants_reread = False
            self._node.reread()

    def _shut_down(self, why: str) -> None:
        if self._node is None or self._main is None:
            self._cancel()
        else:
            self.step = "waiting for what runs"
            self._end_records()
            self._node.shut_down(why)

    def _cancel(self) -> None:
        self._is_cut_short = True
        if self._whole is not None:
            self._whole.cancel()


def _told(error: BaseException) -> list[str]:
    """What went wrong, without the groups that it came in."""
    if isinstance(error, BaseExceptionGroup):
        return [line for part in error.exceptions for line in _told(part)]
    return [f"{type(error).__name__}: {error}"]


def installed_version() -> str:
    """The version of Itinerary that is installed."""
    try:
        return version("itinerary-scheduler")
    except PackageNotFoundError:  # a source tree that nobody installed
        return "0"


def _about() -> str:
    about = {**this_process(), "version": installed_version()}
    return msgspec.json.encode(about).decode()
