"""`Itinerary`: the application object. A program declares jobs on it, and it runs a node.

    app = Itinerary()                        settings: arguments > ITINERARY_* > itinerary.toml > defaults

    @app.job(cron("0 5 * * *"))              a job of one task, named after the function
    async def nightly(ctx): ...

    async with app.running() as node: ...    embedded: coroutines run on the program's own loop
    with app.running() as node: ...          the same in a plain program: they run on a worker loop
    app.run()                                blocks, until SIGTERM or SIGINT

The node runs in its own thread (see `itinerary.node.thread`). An app runs one node at a time, and may run another one
afterwards.
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
from itinerary.api.records import AppRecordSchedulers
from itinerary.api.running_context import RunningContext
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
from itinerary.forecast import TaskDurations
from itinerary.forecast.simulator import ForecastSimulator
from itinerary.jobs.declaration import Declaration, DeclarationContext, pod_of
from itinerary.jobs.function_names import described, title_of
from itinerary.jobs.job_file.load import JobFile
from itinerary.jobs.undeclared import JobSource, calling_file, logical_path
from itinerary.model.settings import ReloadResult
from itinerary.node.environment import NodeEnvironment
from itinerary.node.memory_protection import close_memory
from itinerary.node.shutdown_signals import run_until_signalled
from itinerary.node.thread import NodeThread, Observer
from itinerary.operations.forecast_setup import stage_for
from itinerary.operations.job_updates import DefinitionChange, Diff
from itinerary.operations.node_client import NodeClient
from itinerary.operations.operator import local_user
from itinerary.read.boot_plan import planned_boot
from itinerary.records.declaration import DeskDeclaration, ZoneLike
from itinerary.records.scheduler import RecordScheduler
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
    """The jobs of a program, and the node that runs them."""

    def __init__(  # noqa: PLR0913 - all settings of a program
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
        """Create an app. Other settings come from the environment, the job file, itinerary.toml, or the defaults.

        Args:
            store: The URL of the store.
            timezone: The default time zone of jobs.
            name: The name of the node.
            allow_modules: Modules from which definitions may name functions.
            allow_hosts: Hosts that HTTP tasks may call although their addresses are not public.
            secret_hosts: The hosts that may receive a secret, by its name.
            pod_images: Patterns of allowed pod images.
            pod_namespaces: Namespaces that pods may use.
            pod_service_accounts: Service accounts that pods may use.
            pod_allow: The rights on their machine that pods may request.
            health: The address of probes and metrics.
            health_token: The name of the secret that requests to that address must carry.
            web: The address of the dashboard and the HTTP API.
            web_names: Further host names of the dashboard.
            web_local: The scope of a caller on this machine without a token.
            web_proxies: Addresses and networks of trusted proxies.
            alert_urls: Receivers of alerts.
            alert_secret: The name of the secret that signs alerts.
            undeclared: The policy for jobs that an earlier start declared from the same file and this one does not. By
                default they stay unchanged, but `itinerary up` stops them.
            pod_namespace: The namespace of pods that name none.
            user: The user of commands.
            group: The group of commands.
            allow_debugger: True if other processes of the node's user may read its memory.
            defaults: Overrides for all jobs, and `env`, variables of all commands.
            zone_data: A release of the zone data to use instead of the packaged one.
            job_file: A TOML file whose jobs are declared.
            **settings: The numeric settings of the node.

        Raises:
            ConfigError: A setting is not valid.
            JobFileError: The job file has mistakes; the error contains all of them.
        """
        self.job_file: JobFile | None = None if job_file is None else JobFile(job_file)
        """The job file of the app, if any."""
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
        self._rules = DeclarationContext(
            self._registry,
            configuration.defaults,
            configuration.settings.limits,
            zone_data,
            configuration.env,
            configuration.task_policy,
        )
        self._channels = Channels()
        self._registry.register_internal(self._channels.iterated, ITERATED)
        self._desks = AppRecordSchedulers(self)
        self._declared: dict[str, Declaration] = {}
        self._observers: list[Observer] = []
        self._running: NodeThread | None = None
        self._paths: dict[str, str] = {}
        self.log: Any = None
        """The log of the node; None: see `config.log_setup.engine_log`."""
        self.logs_runs = True
        """True if the log has an event for every end of a run; False if runs are shown elsewhere."""
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

    def _reread(self) -> ReloadResult:
        """Read all settings again, except those that the program gave itself. Raises ConfigError."""
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
        """Change settings before the start, for the command line.

        Args:
            store: The URL of the store.
            name: The name of the node.
            health: The address of probes.
            web: The address of the dashboard.
            undeclared: The policy for undeclared jobs.
            paths: Modules that are files, for worker processes.
        """
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
        """Declare a job.

        `@app.job(schedule)` on a function declares a job with one task, named after the function.
        `app.job("name", schedule)` returns a handle, to which tasks are added. With `executor="pod"` the function runs
        in a pod of that `image`.
        """
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
    ) -> RecordScheduler:
        """Declare a record scheduler: records that are known by their events, picked up, called back and verified.

        Args:
            name: The name of the record scheduler; see `itinerary.records`.
            partition_by: The field of an event that names its partition.
            timezone: The time zone of a partition: a name, or a function of the partition.
            **settings: The settings of the record scheduler.
        """
        self._refuse_while_running("declare desks")
        zone = self.configuration.timezone if timezone is None else timezone
        zones = self._rules.zone_data.zone
        desk = DeskDeclaration(
            name, read_desk_settings(settings), partition_by=partition_by, timezone=zone, zones=zones
        )
        return self._keep_desk(desk)

    def record_scheduler(self, name: str) -> RecordScheduler:
        """Return the record scheduler of that name, declared here or in the job file. Raises KeyError if none is."""
        declared = self._desks.declared.get(name)
        if declared is None:
            there = ", ".join(map(repr, self._desks.declared)) or "none"
            raise KeyError(f"no record scheduler {name!r} is declared here (declared: {there})")
        return RecordScheduler(declared, self._desks)

    def _keep_desk(self, desk: DeskDeclaration) -> RecordScheduler:
        for job in self._desks.declare(desk, self._rules):
            self._keep(job)
        return RecordScheduler(desk, self._desks)

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
        """Return the handle of a job that is declared here or, while a node runs, stored."""
        if name not in self._declared:
            if self._running is None or self._running.ended.done():
                raise KeyError(f"no job {name!r} is declared here; those that only the store knows need a running node")
            self._running.desk.job(name)
        return Job(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the declared jobs, in the order of their declaration."""
        return (Job(self, name) for name in self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    @property
    def declared(self) -> Mapping[str, Declaration]:
        """The declarations by job name, for code that stores, plans or simulates them."""
        return MappingProxyType(self._declared)

    @property
    def zone_data(self) -> ZoneData:
        """The release of the zone data that the app uses."""
        return self._rules.zone_data

    # -- running -----------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """True if the app runs a node now."""
        return self._running is not None and not self._running.ended.done()

    def running(self) -> RunningContext:
        """Return a node for as long as the block lasts: `async with` in a coroutine, `with` in a plain program."""
        return RunningContext(self._begin, self._over, RunningNode(self))

    def run(self, on_ready: Callable[[RunningNode], None] | None = None, *, owns_process: bool = False) -> int:
        """Run a node until SIGTERM or SIGINT. The first signal ends it gracefully, a second at once.

        SIGHUP reloads the settings. A shutdown takes `shutdown_grace_period` + `kill_grace` + 5 s at most, and ends the
        process if it takes longer. Raises the error of a node that could not start or could not continue.

        Args:
            on_ready: Called when the node has started.
            owns_process: True if the program ends after this call: the deadline then holds until the process is gone.

        Returns:
            The exit code: 0 if everything ended, 3 if a run was unfinished at the deadline, 128 plus the signal number
            after a second signal.
        """

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
        """Return the runs that a node would recover, mark as missed or skip if it started now. Nothing is written."""
        self._refuse_while_running("be asked for its boot plan")
        return await planned_boot(self.configuration)

    async def stage(
        self, start: int, said: Mapping[str, int], history: str | None = None
    ) -> tuple[ForecastSimulator, TaskDurations]:
        """Return a simulator of the declared jobs: see `itinerary.forecast`.

        Args:
            start: The instant of their registration, in microseconds.
            said: The durations of jobs, in microseconds, by name.
            history: The URL of a store with the durations of past tasks.
        """
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
        """Change the schedule or options of a job, or both. Options that are not named stay unchanged.

        A change that is sent twice is made once.

        Args:
            name: The job.
            schedule: The new schedule.
            policy: The update policy.
            from_version: The version that the caller has seen.
            effective_from: When a graceful change takes effect.
            window: How far ahead instants are compared: a number of instants or a duration.
            reason: Why; stored with the version.
            **options: The new options.

        Returns:
            The instants that the change adds, removes and keeps.

        Raises:
            StaleVersion: There is a newer version than `from_version`. Nothing changes.
        """
        change = DefinitionChange(
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
        """Return the changes that `update` would make now. Nothing is written."""
        change = DefinitionChange(
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
        """Make a new version of a job with the content of an old one, including its tasks."""
        change = DefinitionChange(
            to_version=to_version,
            policy=policy,
            from_version=from_version,
            effective_from=effective_from,
            window=window,
            reason=f"rolled back to version {to_version}" if reason is None else reason,
        )
        return await self._ask(lambda desk: desk.updates.update(name, change))

    def observe(self, observer: Observer) -> None:
        """Add a function that receives the starts and ends of runs, in batches.

        The function runs on the node's event loop, and must be quick.
        """
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

    def _engine_for(self, call: Coroutine[Any, Any, T]) -> NodeThread:
        try:
            return self._engine
        except NodeError:
            call.close()
            raise

    @property
    def _engine(self) -> NodeThread:
        if self._running is None:
            raise NodeError("no node runs; ask inside async with app.running(), or while app.run() runs")
        return self._running

    async def _ask(self, call: Callable[[NodeClient], Coroutine[Any, Any, T]]) -> T:
        """Run a call on the node's event loop, and wait for it on the current loop."""
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

    def _begin(self, loop: asyncio.AbstractEventLoop | None) -> NodeThread:
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
        self, loop: asyncio.AbstractEventLoop | None, environment: NodeEnvironment | None = None, log: Any = None
    ) -> NodeThread:
        """Make the node thread that this app runs from now on, without starting it."""
        self._refuse_while_running("be started")
        self._channels.open()
        self._running = NodeThread(
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
            environment=environment,
            logs_runs=self.logs_runs,
            home=None if self.source is None else JobSource(self.source, self.configuration.undeclared),
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
        return  # the program's loop is closed, and no caller waits on it
