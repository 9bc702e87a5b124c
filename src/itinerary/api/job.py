"""A job's handle: what a program declares of it, and what it asks of it while a node runs (S11, S12).

    etl = app.job("etl", every("15m"))       declaring: task, shell, http, pod, requires, on_start, on_complete
    app["etl"]                               asking: pause resume stop start skip trigger, is_…, next_run, async for

Declaring is over when a node starts. Asking is for while one runs: what changes something is awaited, is an entry on
the job's timeline with who, when and why, and so survives restarts. What only looks is answered at once, from the
timeline as this node has read it; only `is_running` asks the store, because only the store knows.

A plain program, or a plain function in a thread, waits with `app.blocking(handle.pause())`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack, cast, overload

from itinerary.config.job_options import PodOptions, RunOptions, TaskOptions
from itinerary.core.recovery.backfill import Which
from itinerary.core.timeline.history import Active, Paused, Removed, Stopped, Stretch
from itinerary.errors import ConfigError, NodeError
from itinerary.executors import ExecutionContext
from itinerary.jobs.declaration import pod_of
from itinerary.model.definition import Unmet
from itinerary.model.occurrence import Occurrence
from itinerary.model.report import Report
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.read.run_lookup import Run
from itinerary.schedules import Schedule
from itinerary.schedules.durations import SECOND, DurationLike
from itinerary.schedules.instants import InstantLike, from_seconds, microseconds_of

if TYPE_CHECKING:
    from itinerary.api.application import Itinerary
    from itinerary.operations.node_client import Desk

__all__ = ["Job"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
StartHook = TypeVar("StartHook", bound=Callable[[Occurrence], object])
EndHook = TypeVar("EndHook", bound=Callable[[Report], object])


class Job:
    """A job of an app, by its name."""

    def __init__(self, app: Itinerary, name: str) -> None:
        self._app, self.name = app, name

    def __repr__(self) -> str:
        return f"<Job {self.name!r}>"

    # -- declaring ---------------------------------------------------------------------------------------------------

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
        """One more task: a coroutine function, or a plain one, which runs in a thread. It takes `ctx`, or nothing. With
        `executor="pod"` it runs in a pod of that `image`, which holds the code; `pod` says more of that.

        What a factory returns, a `functools.partial` and a method of an object are tasks like any other; a lambda needs
        a `name`. All of these run in the node itself, since no worker process and no pod could find them."""
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
        """One more task: a program with its arguments; with `use_shell`, a line for /bin/sh. It reads `input` on
        standard input, and nothing without it."""
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
        """One more task: an HTTP call, which succeeds if its status is within `expect` (200 to 299)."""
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

    def pod(  # noqa: PLR0913 - what a pod has
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
        """One more task: a pod of a Kubernetes cluster, which succeeds if its container `main` exits with 0 (K1)."""
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

    def requires(  # noqa: PLR0913 - what a requirement has
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
        """Something that must be so before an occurrence runs (O3): exactly one of the first five."""
        given: dict[str, object] = {"python": python, "job": job, "file": file, "http": http, "sql": sql}
        given |= {"on_unmet": on_unmet, "every": every, "deadline": deadline, "action": action}
        self._declaration.add_requirement(given)
        return self

    def on_start(self, function: StartHook) -> StartHook:
        """A function that is told of each start, before the first task (X7)."""
        self._declaration.add_hook(function, is_start=True)
        return function

    def on_complete(self, function: EndHook) -> EndHook:
        """A function that is told of each end, at least once, with its report (X7)."""
        self._declaration.add_hook(function, is_start=False)
        return function

    @property
    def _declaration(self) -> Any:
        return self._app._declaration(self.name)  # noqa: SLF001 - a handle is a part of its app

    # -- asking ------------------------------------------------------------------------------------------------------

    async def pause(self, *, reason: str | None = None, until: InstantLike | None = None) -> int:
        """Skip its instants from now on, until `resume`, or until that instant. None of them is recovered.

        Everything of the job that was to run before and has not started is held until then: a recovery backlog, what is
        queued, what was triggered and waits.

        Returns:
            How many occurrences are held.
        """
        at = None if until is None else microseconds_of(until)

        async def pause(desk: Desk) -> int:
            await desk.changes.pause(self.name, reason, at)
            return len(await desk.changes.held(self.name))

        return await self._ask(pause)

    async def resume(self, *, reason: str | None = None, backlog: str = "run") -> int:
        """End a pause. Without one it has no effect.

        Args:
            reason: Why; it is kept with who and when.
            backlog: What becomes of what the pause held: `run` releases it, `skip` skips it.

        Returns:
            How many occurrences were released or skipped.
        """

        async def resume(desk: Desk) -> int:
            _, count = await desk.changes.resume(self.name, reason, backlog=backlog)
            return count

        return await self._ask(resume)

    async def stop(self, *, reason: str | None = None) -> None:
        """Expect nothing of it from now on, and recover nothing, until `start`."""
        await self._ask(lambda desk: desk.changes.stop(self.name, reason))

    async def start(self, *, reason: str | None = None) -> None:
        """End a stop. Without one it has no effect."""
        await self._ask(lambda desk: desk.changes.start(self.name, reason))

    async def remove(self, *, reason: str | None = None) -> None:
        """Take it away: what has not started is cancelled, what runs finishes, its history stays (D10)."""
        await self._ask(lambda desk: desk.changes.remove(self.name, reason))

    async def skip(self, instant: InstantLike, *, reason: str | None = None) -> None:
        """Pass over the occurrence of one instant, which is to come."""
        at = microseconds_of(instant)
        await self._ask(lambda desk: desk.changes.skip(self.name, at, reason))

    async def trigger(
        self, *, key: str | None = None, reason: str | None = None, **overrides: Unpack[RunOptions]
    ) -> Run:
        """Have it run now. The same `key`, sent twice, is one run.

        While another run of the job is in progress, the new one waits for its turn, unless `overlap` says otherwise.
        `node.wait(run)` waits for its end.
        """
        options = cast("Mapping[str, object]", overrides)
        return await self._ask(lambda desk: desk.requests.trigger(self.name, key, options, reason))

    async def backfill(  # noqa: PLR0913 - what a backfill may say
        self,
        start: InstantLike,
        end: InstantLike,
        *,
        which: Which | Literal["missing", "failed", "all"] = Which.MISSING,
        max_active: int = 1,
        dry_run: bool = False,
        reason: str | None = None,
        key: str | None = None,
        version: Literal["original", "current"] = "original",
        progress: Callable[[Backfill], None] | None = None,
    ) -> Backfill:
        """Run its instants in `[start, end)` again, or for the first time, and wait for them: those that nothing ran
        for, those that failed, or all; at most `max_active` at a time. `progress` is told whenever some have ended."""
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
        """Whether some occurrence has started and is not final, on whichever node."""
        return await self._ask(lambda desk: desk.is_running(self.name))

    @property
    def is_active(self) -> bool:
        """True if now lies between the start and the end of the schedule, and an instant is still to come."""
        desk = self._desk
        number, now = desk.job(self.name).number, desk.now()
        stretch = desk.timeline.in_force(number, now)
        if stretch is None or isinstance(stretch.standing, Removed):
            return False
        low, high = stretch.schedule.active_range()
        return low <= now // SECOND <= high and not desk.timeline.is_finished(number, now)

    @property
    def is_paused(self) -> bool:
        """True if the instants of the job are skipped."""
        stretch = self._stretch()
        return stretch is not None and isinstance(stretch.standing, Paused)

    @property
    def is_stopped(self) -> bool:
        """True if nothing is expected of the job."""
        stretch = self._stretch()
        return stretch is not None and isinstance(stretch.standing, Stopped)

    @property
    def is_enabled(self) -> bool:
        """True if the job is active, and neither paused nor stopped."""
        stretch = self._stretch()
        return stretch is not None and isinstance(stretch.standing, Active) and self.is_active

    @property
    def schedule(self) -> Schedule:
        """Its schedule, complete: as it is in force, or, while no node runs, as it is declared."""
        if self._app.is_running:
            stretch = self._stretch()
            if stretch is not None:
                return stretch.schedule
        schedule: Schedule = self._declaration.bound(0)
        return schedule

    def next_run(self) -> datetime | None:
        """Return the next instant that is to run; None if the job is stopped, finished or removed.

        While the job is paused without an end, its next instant is returned: the one that runs if the job is resumed
        before that.
        """
        desk = self._desk
        following = desk.timeline.next_instant(desk.job(self.name).number, desk.now())
        return None if following is None else from_seconds(following // SECOND)

    def occurrences_between(self, start: InstantLike, end: InstantLike) -> list[datetime]:
        """Its instants in `[start, end)` that are to run, by the versions that are in force then."""
        desk = self._desk
        number = desk.job(self.name).number
        expected = desk.timeline.expected(microseconds_of(start), microseconds_of(end), [number])
        for gap in expected.gaps:
            raise NodeError(f"job {self.name!r} cannot be enumerated: {gap.reason}")
        return [from_seconds(due.instant // SECOND) for due in expected if due.skipped is None]

    def __aiter__(self) -> AsyncIterator[ExecutionContext]:
        """The occurrences that this node wins, one by one; see `contexts` for when each has succeeded."""
        if self._declaration.has_tasks:
            raise ConfigError(
                f"job {self.name!r} has tasks of its own, which are run already; iterate a job without tasks"
            )
        return self._app._iterate(self.name)  # noqa: SLF001 - a handle is a part of its app

    # -- how ---------------------------------------------------------------------------------------------------------

    @property
    def _desk(self) -> Desk:
        return self._app._engine.desk  # noqa: SLF001 - a handle is a part of its app

    def _stretch(self) -> Stretch | None:
        desk = self._desk
        return desk.timeline.in_force(desk.job(self.name).number, desk.now())

    def _ask(self, call: Callable[[Desk], Coroutine[Any, Any, T]]) -> Awaitable[T]:
        return self._app._ask(call)  # noqa: SLF001 - a handle is a part of its app
