"""A node in its own thread with its own event loop, together with its store and its client.

    the program's threads and loops                  the node thread
    start()                              ──────►     open the store, register, join, recover
    ready (or the error of the start)    ◄──────
    submit(desk.pause(…))                ──────►     runs there; the answer returns as a future
    shut_down(), abandon()               ──────►     ends; `ended` has the result

The loop is made before the thread. A request to end that arrives very early waits there, and ends the start: all that
was opened is closed again, and a node that has joined leaves.

The node has its own loop, so that no program and no task can block it, and it blocks none of them. The store belongs to
that loop; no other loop uses it.

Possible failures: the start (`ready` has the error, and all that was opened is closed again), and the node (it stops
with an error, which `ended` has). The thread is a daemon, since a task that never returns must not prevent the end of
the program. Each step of the shutdown has a limit, so that a hanging step does not block the others. `still_running`
names the current step, and what else has not ended.
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
from itinerary.core.loop.events import SchedulerEvent
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ConfigError, NodeError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.definitions import read_task
from itinerary.executors.pods.definition import require_library
from itinerary.executors.router import ExecutorOptions
from itinerary.executors.run_as import account_of
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.jobs.function_names import main_module_paths
from itinerary.jobs.registration import register
from itinerary.jobs.undeclared import JobSource, UndeclaredJobs
from itinerary.model.definition import Definition
from itinerary.model.queries import Answer, Query
from itinerary.model.settings import ReloadResult
from itinerary.node.environment import NodeEnvironment
from itinerary.node.event_loop import close_loop, ended_within, names_of, new_loop, threads_left
from itinerary.node.health_listener import NodeHealth
from itinerary.node.record_handlers import RunningRecordSchedulers
from itinerary.node.task_transactions import transaction_factory
from itinerary.observe.alerts import Alerts
from itinerary.observe.counters import MetricCounters
from itinerary.observe.health import NodePhase
from itinerary.observe.listen_address import ListenAt
from itinerary.observe.metrics import Gauges
from itinerary.observe.run_log import RunLog
from itinerary.observe.start_rate import StartRate
from itinerary.operations.node_client import NodeClient
from itinerary.ports import Executor, Store
from itinerary.records.declaration import DeskDeclaration
from itinerary.records.service import RecordsService
from itinerary.runtime.machine import is_gone, this_process
from itinerary.runtime.node import Node, NodeResult
from itinerary.schedules.durations import SECOND
from itinerary.signal_safe_wait import join_thread

__all__ = ["NodeThread", "Observer", "installed_version"]

T = TypeVar("T")

_ANSWER_TIMEOUT: Final = 1.0
_STEP_TIMEOUT: Final = 3.0
"""The limit for the end of cancelled parts, and for a node to leave, in seconds."""
Observer = Callable[[Sequence[SchedulerEvent]], None]


class NodeThread:
    """A node in its own thread. Each object starts and ends once."""

    def __init__(  # noqa: PLR0913 - all inputs of a start
        self,
        configuration: Configuration,
        rules: DeclarationContext,
        declared: Mapping[str, Declaration],
        *,
        by: str,
        log: Any,
        loop: asyncio.AbstractEventLoop | None = None,
        observers: Sequence[Observer] = (),
        paths: Mapping[str, str] | None = None,
        reread: Callable[[], ReloadResult] | None = None,
        desks: Mapping[str, DeskDeclaration] | None = None,
        environment: NodeEnvironment | None = None,
        logs_runs: bool = True,
        home: JobSource | None = None,
    ) -> None:
        """Create the thread without starting it.

        Args:
            configuration: The configuration.
            rules: The rules that check definitions.
            declared: The declared jobs, by name.
            by: The user or program that declares the jobs.
            log: The log.
            loop: The loop of the program's coroutines; None: a separate worker loop.
            observers: Functions that receive the starts and ends of runs.
            paths: Modules that are files, for worker processes.
            reread: Reads the settings again.
            desks: The record schedulers, by name.
            ground: The environment of a test; None: the real one.
            logs_runs: True if the log has an event for every end of a run.
            home: The source of the jobs.
        """
        self._environment = NodeEnvironment() if environment is None else environment
        self.configuration, self._rules, self._declared = configuration, rules, dict(declared)
        self._registry, self._incarnation = rules.registry, str(uuid4())
        self._uses_pods = any(declaration.has_pods for declaration in self._declared.values())
        self._by, self._log, self._loop_of_tasks, self._observers = by, log, loop, tuple(observers)
        self._paths, self._reread = {**main_module_paths(), **(paths or {})}, reread
        self._desks = dict(desks or {})
        self._home = home
        self.undeclared: UndeclaredJobs | None = None
        """The jobs that the source no longer declares, and what the start did with them; None: not requested."""
        self._records: RecordsService | None = None
        self._records_end: asyncio.Task[list[str]] | None = None
        self._alerts: Alerts | None = None
        self._early: list[SchedulerEvent] = []
        """Events of the recovery at the start, before the alerts exist."""
        self._thread = threading.Thread(target=self._live, name="itinerary-engine", daemon=True)
        self._is_watched = environment is None
        """True if the node is observed: not for a test node, which must not reach anything outside."""
        at = configuration.health if self._is_watched else None
        self._tally: MetricCounters | None = None
        self._tally_lock = threading.Lock()
        self._health = None if at is None else NodeHealth(configuration, at, self, self.tally(), log)
        self.pulse = StartRate()
        """The start rate and the start lateness; readable from any thread."""
        if self._is_watched:
            self._observers = (*self._observers, self.pulse.handle)
        self._run_log = RunLog(log, configuration.name) if logs_runs and self._is_watched else None
        if self._run_log is not None:
            self._observers = (*self._observers, self._run_log.handle)
        self._wants_reread = self._is_ending = self._is_cut_short = False
        self.step = "starting"
        """The current step, in words; readable from any thread."""
        self._store: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._whole: asyncio.Task[Any] | None = None
        self._main: asyncio.Task[NodeResult] | None = None
        self._node: Node | None = None
        self._desk: NodeClient | None = None
        self.ready: Future[None] = Future()
        """Done when the node has started; has the error if it could not."""
        self.ended: Future[NodeResult | None] = Future()
        """The result of the node; has the error if it could not continue. None if it was ended at once."""
        for future in (self.ready, self.ended):
            future.set_running_or_notify_cancel()  # a cancelled wait must not cancel the future for others

    # -- from any thread ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread; `ready` is done when the node has started. Raises NodeError if probes cannot be served."""
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
    def desk(self) -> NodeClient:
        """The client of the node. Any thread may read its timeline; calls go through `submit`."""
        if self._desk is None or self.ended.done():
            raise NodeError("the node does not run; ask inside async with app.running(), or while app.run() runs")
        return self._desk

    @property
    def records(self) -> RecordsService:
        """The record schedulers of the node, for use on its loop."""
        if self._records is None:
            raise NodeError("the node has no desks, or has not started; declare them with app.records(…)")
        return self._records

    @property
    def node(self) -> Node:
        """The started node, for use on its loop."""
        return self._running_node()

    @property
    def has_desks(self) -> bool:
        """True if this node has record schedulers."""
        return bool(self._desks)

    @property
    def store(self) -> Store:
        """The store, for use on the node's loop."""
        if self._store is None:
            raise NodeError("the node does not run, and its store is not open")
        return self._store

    @property
    def store_url(self) -> str:
        """The URL of the store, without a password."""
        return self._store_url

    _store_url = ""

    def is_here(self) -> bool:
        """True if the caller is a coroutine on the node's own loop."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def submit(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the node's loop."""
        loop = self._loop
        if loop is None or loop.is_closed() or self.ended.done():
            call.close()
            raise NodeError("the node does not run, and nothing can be asked of it")
        answer = asyncio.run_coroutine_threadsafe(call, loop)
        self._environment.asked(answer)
        return answer

    def shut_down(self, why: str) -> None:
        """End gracefully; a second call ends at once."""
        self._is_ending = True
        self._notify(lambda: self._shut_down(why))

    def abandon(self) -> None:
        """End at once, and leave all work as it is."""
        self._notify(self._cancel)

    def reread(self) -> None:
        """Reload the settings now or, during the start, after it."""
        self._wants_reread = True
        self._notify(self._pass_on_reread)

    @property
    def phase(self) -> NodePhase:
        """The phase of the node's life."""
        if self.ended.done():
            return NodePhase.ENDED
        if not self.ready.done():
            return NodePhase.STARTING
        return NodePhase.ENDING if self._is_ending else NodePhase.RUNNING

    def ask(self, answer: Callable[[], None]) -> bool:
        """Call a function on the node's loop. Return False if the loop does not exist or is closed."""
        return self._notify(answer)

    @property
    def health_at(self) -> ListenAt | None:
        """The address of probes."""
        return None if self._health is None else self._health.at

    def tally(self) -> MetricCounters:
        """Return the metric counters, which count since the node was made or, without probes, since the first call."""
        with self._tally_lock:
            if self._tally is None:
                self._tally = MetricCounters(self.configuration.settings.metrics_jobs_max)
                self._observers = (*self._observers, self._tally.handle)
            return self._tally

    def timeline(self) -> Timeline | None:
        """Return the timeline that the node has read; None during the start."""
        return None if self._node is None or self.phase is NodePhase.STARTING else self._node.builder.timeline

    def gauges(self) -> Gauges:
        """Return the gauges that any thread can read."""
        node = self._node
        if node is None or self.phase is NodePhase.STARTING:
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
        """Query the store, on the node's loop."""
        return self.submit(self.store.read(query))

    def failure(self) -> NodeError | None:
        """Return why the node could not continue, after its end; None if it ended on request."""
        error = self.ended.exception()
        if error is None:
            ended = self.ended.result()
            said = None if ended is None else ended.error
            return None if said is None else NodeError(f"the node could not go on: {said}")
        failure = NodeError(f"the node stopped: {'; '.join(_told(error))}")
        failure.__cause__ = error
        return failure

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread to exit. Return False if it has not after `timeout` seconds."""
        return join_thread(self._thread, timeout)

    @property
    def shutdown_timeout(self) -> int:
        """The limit of a whole shutdown, in microseconds."""
        settings = self.configuration.settings if self._node is None else self._node.settings
        return settings.shutdown_timeout

    def still_running(self) -> list[str]:
        """Return what has not ended yet, in words: the current step, occurrences, handlers, and threads."""
        loop, found = self._loop, list[str]()
        if not self.ended.done():
            found.append(f"the engine is {self.step}")
            found += [] if (blocked := self._blocked_in()) is None else [blocked]
            found += [f"occurrence {name}" for name in ([] if self._node is None else self._node.unfinished())]
            found += [f"handler of {name}" for name in ([] if self._records is None else self._records.in_hand())]
            found += [f"component {name}" for name in ([] if loop is None else names_of(loop))]
        return found + [f"thread {name}" for name in threads_left()]

    def _blocked_in(self) -> str | None:
        """Return where the node thread is blocked, if its loop does not answer; None if it answers or is gone."""
        has_answered = threading.Event()
        if not self._notify(has_answered.set) or has_answered.wait(_ANSWER_TIMEOUT):
            return None
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the documented way to look
        if frame is None:
            return None
        place = f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        return f"the engine's event loop has not answered for {_ANSWER_TIMEOUT:g} s, and is in {place}"

    def _notify(self, what: Callable[[], None]) -> bool:
        loop = self._loop
        if loop is None or loop.is_closed():
            return False
        try:
            loop.call_soon_threadsafe(what)
        except RuntimeError:
            return False  # the loop has just been closed
        return True

    # -- in the node thread ------------------------------------------------------------------------------------------

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
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller that waits for the end
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
        """Run on the current loop, in place of a separate thread. Errors are reported in the same way."""
        self._loop = asyncio.get_running_loop()
        try:
            ended = await self._run()
        except Exception as error:  # noqa: BLE001 - it is raised in the caller that waits for the end
            self._fail(error)
            self.ended.set_exception(error)
        else:
            self.ended.set_result(ended)

    def gone(self) -> None:
        """Mark the node as ended: its loop was killed, and nothing of it will run again."""
        self._fail(NodeError("the node was killed before it had started"))
        if not self.ended.done():
            self.ended.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)

    async def _run(self) -> NodeResult:
        self._whole = asyncio.current_task()
        self._check_wanted()
        if self._uses_pods and self._is_watched:
            require_library()
        account_of(self.configuration.user, self.configuration.group)  # refused now, and not at the first command
        self.step = "opening the store"
        opened = self._environment.store(self.configuration.store)
        opened.log_to(self._log)
        async with opened as store:
            self._store, self._store_url = store, store.url
            try:
                return await self._run_on(store)
            finally:
                self.step = f"closing the store {store.url}"

    async def _run_on(self, store: Store) -> NodeResult:
        self.step = "starting the node"
        self.undeclared = await register(
            store, self._declared, by=self._by, log=self._log, zone_data=self._rules.zone_data, home=self._home
        )
        router, coroutines = self._executors(store)
        node = self._node = self._made(store, router, coroutines)
        self._pass_on_reread()
        self._desk = NodeClient(store, node, self._by, self._rules)
        try:
            await node.start()
            self._check_wanted()
        except GeneratorExit:
            raise  # the loop is gone, as in a simulated crash: nothing can be awaited
        except BaseException:
            self.step = "ending its start"
            await self._undo_start(store, node, router)
            raise
        offices = RunningRecordSchedulers(self._desks, coroutines)
        if self._desks:
            slow_after = node.settings.node_heartbeat_interval
            self._records = offices.service(store, node.number, node.clock, self._log, slow_after=slow_after)
        if self._records is not None:
            node.stalled = self._records.stalled
        if self._is_watched:
            self._alerts = alerts_of(self.configuration, store, node, self._log)
        if self._alerts is not None:
            self._alerts.handle(self._early)
        self._early.clear()
        self._main = asyncio.create_task(node.run())
        await asyncio.sleep(0)  # let it start: from here on it can be shut down
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
        """Raise CancelledError if a request to end arrived before the node could be cancelled."""
        if self._is_cut_short:
            raise asyncio.CancelledError

    async def _undo_start(self, store: Store, node: Node, router: Executor) -> None:
        """Close what the start has opened, and leave the store if it answers soon."""
        await ended_within(_STEP_TIMEOUT, asyncio.ensure_future(router.close()))
        if node.number is not None:
            await ended_within(_STEP_TIMEOUT, asyncio.ensure_future(store.leave(node.number)))

    async def _run_with_others(self, main: asyncio.Task[NodeResult]) -> NodeResult:
        """Run the node with its record schedulers and alerts. If one of them fails, end all."""
        others = [
            asyncio.create_task(part.run(), name=type(part).__name__)
            for part in (self._records, self._alerts)
            if part is not None
        ]
        try:
            await asyncio.wait([main, *others], return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                if other.done():
                    other.result()  # it never ends by itself, so this raises
            self._end_records()
            self.step = "waiting for handlers of records"
            handlers = [] if self._records_end is None else await self._records_end
            self.step = "waiting for the node"
            return self._reported(await main, handlers)
        finally:
            for other in others:
                other.cancel()
            await ended_within(_STEP_TIMEOUT, *others)

    def _reported(self, ended: NodeResult, handlers: Sequence[str]) -> NodeResult:
        """Return the result of the node with the number of unfinished handlers, and log what was unfinished."""
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
        """Let handlers finish and release partitions, once."""
        if self._records is not None and self._records_end is None:
            grace = self._running_node().settings.shutdown_grace_period / SECOND
            self._records_end = asyncio.get_running_loop().create_task(self._records.end(grace), name="records' end")

    def _executors(self, store: Store) -> tuple[Executor, CoroutineExecutor]:
        return self._environment.executors(
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
            elapsed=self._environment.elapsed,
            awake=self._environment.awake,
            elsewhere=self._environment.elsewhere,
            zone_data=self._rules.zone_data,
            is_gone=is_gone,
        )

    def _running_node(self) -> Node:
        assert self._node is not None, "tasks run after the start"
        return self._node

    def _observe(self, news: Sequence[SchedulerEvent]) -> None:
        assert self._desk is not None, "nothing happens before the start"
        self._desk.handle(news)
        if self._alerts is not None:
            self._alerts.handle(news)
        elif self.configuration.alert_urls and not self.ready.done():
            self._early.extend(news)
        for observer in self._observers:
            observer(news)

    def _knows(self, definition: Definition) -> bool:
        """True if this node has the code of a job (D9). Without it, a node claims none of its runs and reports that."""
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
    """Return the messages of an error, without its exception groups."""
    if isinstance(error, BaseExceptionGroup):
        return [line for part in error.exceptions for line in _told(part)]
    return [f"{type(error).__name__}: {error}"]


def installed_version() -> str:
    """Return the installed version of Itinerary."""
    try:
        return version("itinerary-scheduler")
    except PackageNotFoundError:  # a source tree without an installation
        return "0"


def _about() -> str:
    about = {**this_process(), "version": installed_version()}
    return msgspec.json.encode(about).decode()
