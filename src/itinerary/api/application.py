"""`Itinerary`: the application object. Jobs are declared on it, and it runs a node.

    app = Itinerary()                        settings: arguments > ITINERARY_* > itinerary.toml > defaults

    @app.job(cron("0 5 * * *"))              a job of one task, named after the function
    async def nightly(ctx): ...

    async with app.running() as node: ...    embedded: coroutines run on the program's own loop
    with app.running() as node: ...          the same in a plain program: they run on a worker loop
    app.run()                                blocks, until SIGTERM or SIGINT

The engine is in a thread of its own (see `engine`). An app runs one node at a time; it may run another one afterwards.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, ParamSpec, TypeVar, Unpack, cast, overload

from itinerary.api.job import Job
from itinerary.api.records import Desks
from itinerary.api.running_context import Running
from itinerary.api.running_node import RunningNode
from itinerary.config.configuration import Configuration, NodeSettings, read_configuration
from itinerary.config.job_options import (
    DefaultOptions,
    JobOptions,
    LocalScopeLike,
    PodOptions,
    UndeclaredLike,
    UpdatePolicyLike,
)
from itinerary.config.log_setup import engine_log
from itinerary.config.reload import reread
from itinerary.core.recovery.boot_plan import BootPlan
from itinerary.errors import ConfigError, NodeError
from itinerary.executors import ExecutionContext, Registry
from itinerary.executors.async_iteration import ITERATED, Channels
from itinerary.forecast import Takes
from itinerary.forecast.simulator import Stage
from itinerary.jobs.declaration import Declaration, Rules, pod_of
from itinerary.jobs.function_names import described, title_of
from itinerary.jobs.job_file.load import JobFile
from itinerary.jobs.undeclared import Home, calling_file, logical_path
from itinerary.model.settings import Reread
from itinerary.node.environment import Ground
from itinerary.node.memory_protection import close_memory
from itinerary.node.shutdown_signals import run_until_signalled
from itinerary.node.thread import Engine, Observer
from itinerary.operations.forecast_setup import stage_for
from itinerary.operations.job_updates import Change, Diff
from itinerary.operations.node_client import Desk
from itinerary.operations.operator import local_user
from itinerary.read.boot_plan import planned_boot
from itinerary.records.declaration import DeskDeclaration, ZoneLike
from itinerary.records.scheduler import RecordDesk
from itinerary.records.settings import DeskOptions, read_desk_settings
from itinerary.schedules import Schedule, ZoneData
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.instants import InstantLike
from itinerary.signal_safe_wait import result_of

__all__ = ["Itinerary"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

JOBS_MAX: Final = 1_000_000


class Itinerary:
    """Jobs, and the node that runs them."""

    def __init__(  # noqa: PLR0913 - everything that a program may say of itself
        self,
        *,
        store: str | None = None,
        timezone: str | None = None,
        name: str | None = None,
        allow_modules: tuple[str, ...] | list[str] | None = None,
        allow_hosts: tuple[str, ...] | list[str] | None = None,
        secret_hosts: Mapping[str, Sequence[str]] | None = None,
        pod_images: Sequence[str] | None = None,
        pod_namespaces: Sequence[str] | None = None,
        pod_service_accounts: Sequence[str] | None = None,
        pod_allow: Sequence[str] | None = None,
        health: str | int | None = None,
        health_token: str | None = None,
        web: str | int | None = None,
        web_names: Sequence[str] | None = None,
        web_local: LocalScopeLike | None = None,
        web_proxies: Sequence[str] | None = None,
        alert_urls: Sequence[str | Mapping[str, str]] | None = None,
        alert_secret: str | None = None,
        undeclared: UndeclaredLike | None = None,
        pod_namespace: str | None = None,
        user: str | int | None = None,
        group: str | int | None = None,
        allow_debugger: bool | None = None,
        defaults: DefaultOptions | None = None,
        zone_data: ZoneData | None = None,
        job_file: str | os.PathLike[str] | None = None,
        **settings: Unpack[NodeSettings],
    ) -> None:
        """`defaults` are overrides for all jobs, and `env`, variables of all commands; `settings` are the numbers that
        govern the node. What is not given here comes from the environment, from the job file, from itinerary.toml, or
        is the default. `zone_data` is a release of the zone data that is used in place of the packaged one. `job_file`
        is a TOML file whose jobs are declared; raises JobFileError with everything that is wrong with it. `undeclared`
        says what becomes of jobs that an earlier start declared from the same file and this one does not; without it
        they are left alone, except by `itinerary up`, which stops them."""
        self.job_file: JobFile | None = None if job_file is None else JobFile(job_file)
        """The job file that it was made from."""
        self.source: str | None = calling_file() if self.job_file is None else logical_path(self.job_file.name)
        """The file that declares the jobs: the job file, or the Python file that makes this app."""
        self._arguments: dict[str, object] = {
            "store": store,
            "timezone": timezone,
            "name": name,
            "allow_modules": allow_modules,
            "allow_hosts": allow_hosts,
            "secret_hosts": secret_hosts,
            "pod_images": pod_images,
            "pod_namespaces": pod_namespaces,
            "pod_service_accounts": pod_service_accounts,
            "pod_allow": pod_allow,
            "health": health,
            "health_token": health_token,
            "web": web,
            "web_names": web_names,
            "web_local": web_local,
            "web_proxies": web_proxies,
            "alert_urls": alert_urls,
            "alert_secret": alert_secret,
            "undeclared": undeclared,
            "pod_namespace": pod_namespace,
            "user": user,
            "group": group,
            "allow_debugger": allow_debugger,
            "defaults": defaults,
            **settings,
        }
        self.configuration: Configuration = self._configured()
        self._registry = Registry(self.configuration.allow_modules)
        configuration = self.configuration
        self._rules = Rules(
            self._registry,
            configuration.defaults,
            configuration.settings.limits,
            zone_data,
            configuration.env,
            configuration.task_policy,
        )
        self._channels = Channels()
        self._registry.register_internal(self._channels.iterated, ITERATED)
        self._desks = Desks(self)
        self._declared: dict[str, Declaration] = {}
        self._observers: list[Observer] = []
        self._running: Engine | None = None
        self._paths: dict[str, str] = {}
        self.log: Any = None
        """Where the engine says what it does; None: see `logs.engine_log`."""
        self.logs_runs = True
        """Whether every end of a run is an event of the log; False where each is shown otherwise."""
        if self.job_file is not None:
            desks = self.job_file.record_schedulers(self._rules, configuration.timezone)
            for declaration in self.job_file.declarations(self._rules):
                self._keep(declaration)
                for function in declaration.functions:
                    self._registry.register_name(function)
            for desk in desks:
                self._keep_desk(desk)

    def _configured(self) -> Configuration:
        self._directory = Path.cwd()
        above_jobs = None if self.job_file is None else self.job_file.settings
        return read_configuration(self._arguments, os.environ, self._directory, above_jobs)

    def _reread(self) -> Reread:
        """Read all places again, the file where it was; what the program said itself stays. Raises ConfigError."""
        above_jobs = None if self.job_file is None else self.job_file.reread()
        wanted = read_configuration(self._arguments, os.environ, self._directory, above_jobs)
        self.configuration, found = reread(self.configuration, wanted)
        return found

    def reconfigure(
        self,
        *,
        store: str | None = None,
        name: str | None = None,
        health: str | None = None,
        web: str | None = None,
        undeclared: UndeclaredLike | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> None:
        """Let somebody who starts the app decide where it keeps things, what it is called, where probes are answered
        and where the dashboard is, and what becomes of undeclared jobs: the command line. `paths` are modules that are
        files, for worker processes."""
        self._refuse_while_running("be configured")
        given = {"store": store, "name": name, "health": health, "web": web, "undeclared": undeclared}
        self._arguments |= {key: value for key, value in given.items() if value is not None}
        self.configuration = self._configured()
        self._paths |= paths or {}

    # -- declaring ---------------------------------------------------------------------------------------------------

    @overload
    def job(
        self,
        schedule: Schedule,
        /,
        *,
        name: str | None = None,
        image: str | None = None,
        pod: PodOptions | None = None,
        **overrides: Unpack[JobOptions],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def job(self, name: str, schedule: Schedule, /, **overrides: Unpack[JobOptions]) -> Job: ...
    def job(
        self,
        first: Schedule | str,
        second: Schedule | None = None,
        /,
        *,
        name: str | None = None,
        image: str | None = None,
        pod: PodOptions | None = None,
        **overrides: Any,
    ) -> Any:
        """A job. `@app.job(schedule)` on a function: one task, named after it. `app.job("name", schedule)`: a handle,
        to which tasks are added. With `executor="pod"` the function runs in a pod of that `image`."""
        of_pod = pod_of(image, pod)
        if isinstance(first, str):
            if second is None:
                raise ConfigError(f"job {first!r} has no schedule; write app.job({first!r}, every('15m'))")
            if of_pod is not None:
                raise ConfigError(f"job {first!r}: image: goes with a task; write it with task(…) or pod(…)")
            self._declare(first, second, overrides)
            return Job(self, first)

        def declare(function: Callable[P, R]) -> Callable[P, R]:
            title = title_of(function) if name is None else name
            if title is None:
                raise ConfigError(
                    f"{described(function)} has no name that its job could have; give one: app.job(schedule, name=…)"
                )
            declaration = Declaration(self._rules, title, first, overrides)
            declaration.add_function(function, {}, title_of(function) or title, of_pod)
            self._keep(declaration)
            return function

        return declare

    def records(
        self, name: str, *, partition_by: str | None = None, timezone: ZoneLike = None, **settings: Unpack[DeskOptions]
    ) -> RecordDesk:
        """A desk: records that are known by their events, picked up, called back and verified (see `records`).
        `partition_by` is the field of an event that says which partition it belongs to, and `timezone` says which time
        zone a partition has: a name, or a function of the partition."""
        self._refuse_while_running("declare desks")
        zone = self.configuration.timezone if timezone is None else timezone
        zones = self._rules.zone_data.zone
        desk = DeskDeclaration(
            name, read_desk_settings(settings), partition_by=partition_by, timezone=zone, zones=zones
        )
        return self._keep_desk(desk)

    def record_scheduler(self, name: str) -> RecordDesk:
        """The record scheduler of that name, declared here or in the job file. Raises KeyError if there is none."""
        declared = self._desks.declared.get(name)
        if declared is None:
            there = ", ".join(map(repr, self._desks.declared)) or "none"
            raise KeyError(f"no record scheduler {name!r} is declared here (declared: {there})")
        return RecordDesk(declared, self._desks)

    def _keep_desk(self, desk: DeskDeclaration) -> RecordDesk:
        for job in self._desks.declare(desk, self._rules):
            self._keep(job)
        return RecordDesk(desk, self._desks)

    def _declare(self, name: str, schedule: Schedule, overrides: Mapping[str, object]) -> None:
        self._keep(Declaration(self._rules, name, schedule, overrides))

    def _keep(self, declaration: Declaration) -> None:
        self._refuse_while_running("declare jobs")
        if declaration.name in self._declared:
            raise ConfigError(f"job {declaration.name!r} is declared already; give one of the two another name")
        if len(self._declared) == JOBS_MAX:
            raise ConfigError(f"{JOBS_MAX} jobs are declared, and more are not allowed")
        self._declared[declaration.name] = declaration

    def _declaration(self, name: str) -> Declaration:
        declaration = self._declared.get(name)
        if declaration is None:
            raise ConfigError(f"job {name!r} is in the store, but it is not declared in this program")
        return declaration

    def __getitem__(self, name: str) -> Job:
        """The handle of a job: declared here, or, while a node runs, in the store."""
        if name not in self._declared:
            if self._running is None or self._running.ended.done():
                raise KeyError(f"no job {name!r} is declared here; those that only the store knows need a running node")
            self._running.desk.job(name)
        return Job(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[Job]:
        """The jobs that are declared, in the order of their declaration."""
        return (Job(self, name) for name in self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    @property
    def declared(self) -> Mapping[str, Declaration]:
        """What is declared of each job, by name: for those who store, plan or simulate it."""
        return MappingProxyType(self._declared)

    @property
    def zone_data(self) -> ZoneData:
        """The release of the zone data that it goes by."""
        return self._rules.zone_data

    # -- running -----------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it runs a node now."""
        return self._running is not None and not self._running.ended.done()

    def running(self) -> Running:
        """A node for as long as the block lasts: `async with` in a coroutine, `with` in a plain program."""
        return Running(self._begin, self._over, RunningNode(self))

    def run(self, on_ready: Callable[[RunningNode], None] | None = None, *, owns_process: bool = False) -> int:
        """Run a node until SIGTERM or SIGINT: the first ends it gracefully, a second at once. SIGHUP reads the settings
        again. Returns the exit code: 0 if everything ended, 3 if something still ran when its time was over, 128 and
        the signal's number after a second signal. Raises if the node could not start, or could not go on. `on_ready` is
        called when it has started.

        A shutdown takes `shutdown_grace_period` + `kill_grace` + 5 s at most, and ends the process if it takes longer.
        With `owns_process` that deadline holds until the process is gone: for a program that ends after this call."""

        def greet() -> None:
            if on_ready is not None:
                on_ready(RunningNode(self))

        log = self.log or engine_log()
        if not self.configuration.allow_debugger:
            close_memory(log)
        try:
            return run_until_signalled(lambda: self._begin(loop=None), greet, log, owns_process=owns_process)
        finally:
            self._over()

    async def boot_plan(self) -> BootPlan:
        """What a node that starts now would run, miss and skip, to make up for the time that nobody was there. Nothing
        is written for that."""
        self._refuse_while_running("be asked for its boot plan")
        return await planned_boot(self.configuration)

    async def stage(self, start: int, said: Mapping[str, int], history: str | None = None) -> tuple[Stage, Takes]:
        """Where what will happen to the declared jobs is played through: see `itinerary.forecast`. They count as
        registered at `start`, in microseconds; `said` is how long jobs take, and `history` a store that knows it."""
        return await stage_for(self.configuration, self._declared, self._rules.zone_data, start, said, history)

    # -- changing ----------------------------------------------------------------------------------------------------

    async def update(
        self,
        name: str,
        *,
        schedule: Schedule | None = None,
        policy: UpdatePolicyLike | None = None,
        from_version: int | None = None,
        effective_from: InstantLike | None = None,
        window: int | DurationLike | None = None,
        reason: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Diff:
        """Change a job: its schedule, its options, or both. Returns what that adds, removes and keeps. `from_version`
        is the version that you looked at: if there is a newer one, StaleVersion is raised and nothing changes. What is
        not named stays as it is; sent twice, it is one change."""
        change = Change(
            schedule=schedule,
            options=cast("Mapping[str, object]", options),
            policy=policy,
            from_version=from_version,
            effective_from=effective_from,
            window=window,
            reason=reason,
        )
        return await self._ask(lambda desk: desk.updates.update(name, change))

    async def plan_update(
        self,
        name: str,
        *,
        schedule: Schedule | None = None,
        policy: UpdatePolicyLike | None = None,
        from_version: int | None = None,
        effective_from: InstantLike | None = None,
        window: int | DurationLike | None = None,
        **options: Unpack[JobOptions],
    ) -> Diff:
        """What `update` would change, if it were made now. Nothing is written."""
        change = Change(
            schedule=schedule,
            options=cast("Mapping[str, object]", options),
            policy=policy,
            from_version=from_version,
            effective_from=effective_from,
            window=window,
        )
        return await self._ask(lambda desk: desk.updates.update(name, change, is_plan=True))

    async def rollback(
        self,
        name: str,
        to_version: int,
        *,
        policy: UpdatePolicyLike | None = None,
        from_version: int | None = None,
        effective_from: InstantLike | None = None,
        window: int | DurationLike | None = None,
        reason: str | None = None,
    ) -> Diff:
        """Make a new version of a job that says what an old one said, tasks and all."""
        change = Change(
            to_version=to_version,
            policy=policy,
            from_version=from_version,
            effective_from=effective_from,
            window=window,
            reason=f"rolled back to version {to_version}" if reason is None else reason,
        )
        return await self._ask(lambda desk: desk.updates.update(name, change))

    def observe(self, observer: Observer) -> None:
        """Have a function told what begins and ends here, in batches, on the engine's loop: it must be quick."""
        self._refuse_while_running("be given observers")
        self._observers.append(observer)

    def blocking(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for a call of a handle or node, in a plain program or in a thread: `app.blocking(handle.pause())`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            try:
                return result_of(self._engine_for(call).submit(call))
            except CancelledError:
                raise NodeError("the node has ended, and what was asked of it with it") from None
        call.close()
        raise NodeError("this would block an event loop; await the call itself here")

    def _engine_for(self, call: Coroutine[Any, Any, T]) -> Engine:
        try:
            return self._engine
        except NodeError:
            call.close()
            raise

    @property
    def _engine(self) -> Engine:
        if self._running is None:
            raise NodeError("no node runs; ask inside async with app.running(), or while app.run() runs")
        return self._running

    async def _ask(self, call: Callable[[Desk], Coroutine[Any, Any, T]]) -> T:
        """Have something done on the engine's loop, and wait for it on whichever loop this is."""
        engine = self._engine
        asked = call(engine.desk)
        if engine.is_here():
            return await asked
        try:
            return await asyncio.wrap_future(engine.submit(asked))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise NodeError("the node has ended, and what was asked of it with it") from None

    def _iterate(self, name: str) -> AsyncIterator[ExecutionContext]:
        if not self.is_running:
            raise NodeError(
                f"no node runs, so job {name!r} has no occurrences; iterate inside async with app.running()"
            )
        return self._channels.iterate(name)

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> Engine:
        engine = self._new_engine(loop)
        if loop is not None:
            engine.ended.add_done_callback(lambda _: _on(loop, self._channels.close))
        try:
            engine.start()
        except BaseException:
            self._over()
            raise
        return engine

    def _new_engine(
        self, loop: asyncio.AbstractEventLoop | None, ground: Ground | None = None, log: Any = None
    ) -> Engine:
        """The engine that this app runs from now on; it is to be started."""
        self._refuse_while_running("be started")
        self._channels.open()
        self._running = Engine(
            self.configuration,
            self._rules,
            self._declared,
            by=local_user(),
            log=log or self.log or engine_log(),
            loop=loop,
            observers=self._observers,
            paths=self._paths,
            reread=self._reread,
            desks=self._desks.declared,
            ground=ground,
            logs_runs=self.logs_runs,
            home=None if self.source is None else Home(self.source, self.configuration.undeclared),
        )
        return self._running

    def _over(self) -> None:
        self._running = None

    def _refuse_while_running(self, what: str) -> None:
        if self.is_running:
            raise NodeError(f"this app runs a node already, and can {what} only when that has ended")


def _on(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        return  # the program's loop is closed, and nobody waits on it
