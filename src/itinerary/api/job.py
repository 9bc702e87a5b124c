"""The handle of a job: declare its parts, and send requests while a node runs (S11, S12).

    etl = app.job("etl", every("15m"))       declare: task, shell, http, pod, requires, on_start, on_complete
    app["etl"]                               request: pause resume stop start skip trigger, is_…, next_run, async for

Declarations end when a node starts; requests need a running node. A change is awaited. It is an entry on the job's
timeline with who, when and why, and so survives restarts. A query is answered at once from the timeline that this node
has read; only `is_running` reads the store, because only the store knows.

A plain program, or a plain function in a thread, waits with `app.blocking(handle.pause())`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from itinerary.config.job_options import PodOptions, RunOptions, TaskOptions
from itinerary.core.recovery.backfill import InstantChoice
from itinerary.core.timeline.history import HistorySegment, JobActive, JobPaused, JobRemoved, JobStopped
from itinerary.errors import ConfigError, NodeError
from itinerary.executors import ExecutionContext
from itinerary.jobs.declaration import pod_of
from itinerary.model.definition import Unmet
from itinerary.model.occurrence import Occurrence
from itinerary.model.report import OccurrenceReport
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.read.run_lookup import RunReference
from itinerary.schedules import Schedule
from itinerary.schedules.durations import SECOND, DurationLike
from itinerary.schedules.instants import InstantLike, from_seconds, microseconds_of

if TYPE_CHECKING:
    from itinerary.api.application import Itinerary
    from itinerary.operations.node_client import NodeClient

__all__ = ["Job"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
StartHook = TypeVar("StartHook", bound=Callable[[Occurrence], object])
EndHook = TypeVar("EndHook", bound=Callable[[OccurrenceReport], object])


class Job:
    """A job of an app, by its name."""

    def __init__(self, app: Itinerary, name: str) -> None:
        self._app, self.name = app, name

    def __repr__(self) -> str:
        return f"<Job {self.name!r}>"

    # -- declarations ------------------------------------------------------------------------------------------------

    @overload
    def task(
        self,
        function: Callable[P, R],
        /,
        *,
        name: str | None = None,
        image: str | None = None,
        pod: PodOptions | None = None,
        **overrides: Unpack[TaskOptions],
    ) -> Callable[P, R]: ...
    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        image: str | None = None,
        pod: PodOptions | None = None,
        **overrides: Unpack[TaskOptions],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        image: str | None = None,
        pod: PodOptions | None = None,
        **overrides: Any,
    ) -> Any:
        """Add a task: a coroutine function, or a plain one, which runs in a thread.

        The function takes `ctx`, or nothing. With `executor="pod"` the function runs in a pod of that `image`, which
        contains the code; `pod` has further options.

        The result of a factory, a `functools.partial` and a bound method are valid tasks; a lambda needs a `name`. Such
        functions run in the node itself, since no worker process and no pod could find them.
        """
        of_pod = pod_of(image, pod)

        def declare(declared: Callable[P, R]) -> Callable[P, R]:
            self._declaration.add_function(declared, overrides, name, of_pod)
            return declared

        return declare if function is None else declare(function)

    def shell(
        self,
        name: str,
        command: Sequence[str] | str,
        *,
        env: Mapping[str, str | Mapping[str, str]] | None = None,
        cwd: str | None = None,
        inherit_env: bool = True,
        use_shell: bool = False,
        input: str | Mapping[str, str] | None = None,  # noqa: A002 - as in a job file
        **overrides: Unpack[TaskOptions],
    ) -> Job:
        """Add a task: a program with its arguments; with `use_shell`, a command line for /bin/sh.

        The program reads `input` on standard input, which is empty by default.
        """
        run: dict[str, object] = {"shell": command if isinstance(command, str) else list(command)}
        if env:
            run["env"] = {key: value if isinstance(value, str) else dict(value) for key, value in env.items()}
        if cwd is not None:
            run["cwd"] = cwd
        if not inherit_env:
            run["inherit_env"] = False
        if use_shell:
            run["use_shell"] = True
        if input is not None:
            run["input"] = input if isinstance(input, str) else dict(input)
        self._declaration.add_task(name, run, cast("Mapping[str, object]", overrides))
        return self

    def http(
        self,
        name: str,
        url: str,
        *,
        method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | None = None,
        headers: Mapping[str, str | Mapping[str, str]] | None = None,
        body: object = None,
        expect: tuple[int, int] | None = None,
        **overrides: Unpack[TaskOptions],
    ) -> Job:
        """Add a task: an HTTP call, which succeeds if its status is within `expect` (200 to 299)."""
        run: dict[str, object] = {"http": url}
        if method is not None:
            run["method"] = method
        if headers:
            run["headers"] = {key: value if isinstance(value, str) else dict(value) for key, value in headers.items()}
        if body is not None:
            run["body"] = body
        if expect is not None:
            run["expect"] = list(expect)
        self._declaration.add_task(name, run, cast("Mapping[str, object]", overrides))
        return self

    def pod(  # noqa: PLR0913 - the options of a pod
        self,
        name: str,
        *,
        image: str,
        command: Sequence[str] | None = None,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | Mapping[str, str]] | None = None,
        env_from: Sequence[Mapping[str, str]] | None = None,
        cwd: str | None = None,
        resources: Mapping[str, Mapping[str, str | int | float]] | None = None,
        namespace: str | None = None,
        service_account: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None,
        start_timeout: str | None = None,
        template: Mapping[str, Any] | None = None,
        **overrides: Unpack[TaskOptions],
    ) -> Job:
        """Add a task: a pod of a Kubernetes cluster, which succeeds if its container `main` exits with 0 (K1)."""
        given: dict[str, object] = {
            "image": image,
            "command": None if command is None else command if isinstance(command, str) else list(command),
            "args": None if args is None else args if isinstance(args, str) else list(args),
            "env": env,
            "env_from": env_from,
            "cwd": cwd,
            "resources": resources,
            "namespace": namespace,
            "service_account": service_account,
            "labels": labels,
            "annotations": annotations,
            "pull_policy": pull_policy,
            "start_timeout": start_timeout,
            "template": template,
        }
        run = {"pod": {key: value for key, value in given.items() if value is not None}}
        self._declaration.add_task(name, run, cast("Mapping[str, object]", overrides))
        return self

    def requires(  # noqa: PLR0913 - the options of a condition
        self,
        *,
        python: Callable[..., object] | str | None = None,
        job: str | None = None,
        file: str | None = None,
        http: str | None = None,
        sql: str | None = None,
        on_unmet: Unmet | Literal["wait", "skip", "fail", "act"] | None = None,
        every: DurationLike | None = None,
        deadline: DurationLike | None = None,
        action: Callable[..., object] | str | None = None,
    ) -> Job:
        """Add a condition that must hold before an occurrence runs (O3): exactly one of the first five."""
        given: dict[str, object] = {"python": python, "job": job, "file": file, "http": http, "sql": sql}
        given |= {"on_unmet": on_unmet, "every": every, "deadline": deadline, "action": action}
        self._declaration.add_requirement(given)
        return self

    def on_start(self, function: StartHook) -> StartHook:
        """Add a hook that is called at each start, before the first task (X7)."""
        self._declaration.add_hook(function, is_start=True)
        return function

    def on_complete(self, function: EndHook) -> EndHook:
        """Add a hook that is called at each end, at least once, with the report (X7)."""
        self._declaration.add_hook(function, is_start=False)
        return function

    @property
    def _declaration(self) -> Any:
        return self._app._declaration(self.name)  # noqa: SLF001 - a handle is a part of its app

    # -- requests ----------------------------------------------------------------------------------------------------

    async def pause(self, *, reason: str | None = None, until: InstantLike | None = None) -> int:
        """Skip the instants of the job from now on, until `resume` or until `until`. None of them is recovered.

        The pause holds all unstarted runs that were due before: a recovery backlog, queued runs, and triggered runs
        that wait.

        Returns:
            The number of held occurrences.
        """
        at = None if until is None else microseconds_of(until)

        async def pause(desk: NodeClient) -> int:
            await desk.changes.pause(self.name, reason, at)
            return len(await desk.changes.held(self.name))

        return await self._ask(pause)

    async def resume(self, *, reason: str | None = None, backlog: str = "run") -> int:
        """End a pause. Without a pause, this has no effect.

        Args:
            reason: Why; it is kept with who and when.
            backlog: `run` releases the held occurrences, `skip` skips them.

        Returns:
            The number of occurrences that were released or skipped.
        """

        async def resume(desk: NodeClient) -> int:
            _, count = await desk.changes.resume(self.name, reason, backlog=backlog)
            return count

        return await self._ask(resume)

    async def stop(self, *, reason: str | None = None) -> None:
        """End the instants of the job from now on, and recover none, until `start`."""
        await self._ask(lambda desk: desk.changes.stop(self.name, reason))

    async def start(self, *, reason: str | None = None) -> None:
        """End a stop. Without a stop, this has no effect."""
        await self._ask(lambda desk: desk.changes.start(self.name, reason))

    async def remove(self, *, reason: str | None = None) -> None:
        """Remove the job: unstarted runs are cancelled, running ones finish, and the history stays (D10)."""
        await self._ask(lambda desk: desk.changes.remove(self.name, reason))

    async def skip(self, instant: InstantLike, *, reason: str | None = None) -> None:
        """Skip the occurrence of one future instant."""
        at = microseconds_of(instant)
        await self._ask(lambda desk: desk.changes.skip(self.name, at, reason))

    async def trigger(
        self, *, key: str | None = None, reason: str | None = None, **overrides: Unpack[RunOptions]
    ) -> RunReference:
        """Run the job now. Two calls with the same `key` make one run.

        While another run of the job is in progress, the new one waits in the queue, unless `overlap` says otherwise.
        `node.wait(run)` waits for its end.
        """
        options = cast("Mapping[str, object]", overrides)
        return await self._ask(lambda desk: desk.requests.trigger(self.name, key, options, reason))

    async def backfill(  # noqa: PLR0913 - the options of a backfill
        self,
        start: InstantLike,
        end: InstantLike,
        *,
        which: InstantChoice | Literal["missing", "failed", "all"] = InstantChoice.MISSING,
        max_active: int = 1,
        dry_run: bool = False,
        reason: str | None = None,
        key: str | None = None,
        version: Literal["original", "current"] = "original",
        progress: Callable[[Backfill], None] | None = None,
    ) -> Backfill:
        """Run the instants in `[start, end)` again, or for the first time, and wait for their end.

        Args:
            start: The start of the range.
            end: The end of the range.
            which: `missing` for instants without a run, `failed` for failed ones, or `all`.
            max_active: The maximum number of runs at a time.
            dry_run: True to run nothing, and only return the instants.
            reason: Why; stored with the runs.
            key: The idempotency key.
            version: `original` or `current`.
            progress: Called whenever runs have ended.
        """
        wish = BackfillWish(
            start=microseconds_of(start),
            end=microseconds_of(end),
            which=which,
            max_active=max_active,
            reason=reason,
            key=key,
            version=version,
        )
        return await self._ask(lambda desk: desk.requests.backfill(self.name, wish, progress, is_dry=dry_run))

    async def is_running(self) -> bool:
        """True if an occurrence has started and is not final, on any node."""
        return await self._ask(lambda desk: desk.is_running(self.name))

    @property
    def is_active(self) -> bool:
        """True if now lies between the start and the end of the schedule, and an instant is still to come."""
        desk = self._desk
        number, now = desk.job(self.name).number, desk.now()
        segment = desk.timeline.in_force(number, now)
        if segment is None or isinstance(segment.status, JobRemoved):
            return False
        low, high = segment.schedule.active_range()
        return low <= now // SECOND <= high and not desk.timeline.is_finished(number, now)

    @property
    def is_paused(self) -> bool:
        """True if the instants of the job are skipped."""
        segment = self._segment()
        return segment is not None and isinstance(segment.status, JobPaused)

    @property
    def is_stopped(self) -> bool:
        """True if the job has no expected instants because of a stop."""
        segment = self._segment()
        return segment is not None and isinstance(segment.status, JobStopped)

    @property
    def is_enabled(self) -> bool:
        """True if the job is active, and neither paused nor stopped."""
        segment = self._segment()
        return segment is not None and isinstance(segment.status, JobActive) and self.is_active

    @property
    def schedule(self) -> Schedule:
        """The complete schedule: the one in force or, while no node runs, the declared one."""
        if self._app.is_running:
            segment = self._segment()
            if segment is not None:
                return segment.schedule
        schedule: Schedule = self._declaration.bound(0)
        return schedule

    def next_run(self) -> datetime | None:
        """Return the next instant that will run; None if the job is stopped, finished or removed.

        For a job that is paused without an end, return its next instant, which runs if the job is resumed before.
        """
        desk = self._desk
        following = desk.timeline.next_instant(desk.job(self.name).number, desk.now())
        return None if following is None else from_seconds(following // SECOND)

    def occurrences_between(self, start: InstantLike, end: InstantLike) -> list[datetime]:
        """Return the instants in `[start, end)` that will run, by the versions in force then."""
        desk = self._desk
        number = desk.job(self.name).number
        expected = desk.timeline.expected(microseconds_of(start), microseconds_of(end), [number])
        for gap in expected.gaps:
            raise NodeError(f"job {self.name!r} cannot be enumerated: {gap.reason}")
        return [from_seconds(due.instant // SECOND) for due in expected if due.skipped is None]

    def __aiter__(self) -> AsyncIterator[ExecutionContext]:
        """Iterate over the occurrences that this node wins; see `async_iteration` for when each has succeeded."""
        if self._declaration.has_tasks:
            raise ConfigError(
                f"job {self.name!r} has tasks of its own, which are run already; iterate a job without tasks"
            )
        return self._app._iterate(self.name)  # noqa: SLF001 - a handle is a part of its app

    # -- internals ---------------------------------------------------------------------------------------------------

    @property
    def _desk(self) -> NodeClient:
        return self._app._engine.desk  # noqa: SLF001 - a handle is a part of its app

    def _segment(self) -> HistorySegment | None:
        desk = self._desk
        return desk.timeline.in_force(desk.job(self.name).number, desk.now())

    def _ask(self, call: Callable[[NodeClient], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        return self._app._ask(call)  # noqa: SLF001 - a handle is a part of its app
