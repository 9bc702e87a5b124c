"""Jobs that are made in a loop, from functions that the program makes: closures, partials, methods and lambdas."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextlib import closing
from functools import partial, update_wrapper
from typing import Any

import pytest

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, every
from itinerary.errors import ConfigError
from itinerary.testing import TestNode

REGIONS = ("eu", "us", "asia")


class Log:
    """What the tasks of a test have done; a method of it is a task, and so is the object."""

    def __init__(self, region: str = "") -> None:
        self.region = region
        self.lines: list[str] = []

    def note(self, ctx: ExecutionContext) -> None:
        self.lines.append(f"{ctx.job} {self.region}")

    def __call__(self, ctx: ExecutionContext) -> None:
        self.lines.append(f"{ctx.job} {self.region}")


@pytest.fixture
def app() -> Itinerary:
    return Itinerary(store="memory:", name="here")


def ran(app: Itinerary) -> None:
    with closing(TestNode(app, start="2026-01-01T00:00")) as run:
        run.advance(hours=1)
        for job in app:
            assert run.history(job.name).statuses == ["completed"], run.describe()


def python(app: Itinerary, job: str) -> list[str]:
    definition: dict[str, Any] = json.loads(app.declared[job].body(0))
    return [task["definition"]["python"] for task in definition["tasks"]]


def fetch(log: Log, region: str, ctx: ExecutionContext) -> None:
    log.lines.append(f"{ctx.job} {region}")


async def fetch_async(log: Log, region: str, ctx: ExecutionContext) -> None:
    log.lines.append(f"{ctx.job} {region}")


def closure(log: Log, region: str) -> Callable[[ExecutionContext], None]:
    def sync(ctx: ExecutionContext) -> None:
        log.lines.append(f"{ctx.job} {region}")

    return sync


def coroutine(log: Log, region: str) -> Callable[[ExecutionContext], Coroutine[Any, Any, None]]:
    async def sync(ctx: ExecutionContext) -> None:
        log.lines.append(f"{ctx.job} {region}")

    return sync


def method(log: Log, region: str) -> Callable[[ExecutionContext], None]:
    own = Log(region)
    own.lines = log.lines
    return own.note


def callable_object(log: Log, region: str) -> Log:
    own = Log(region)
    own.lines = log.lines
    return own


MADE: dict[str, Callable[[Log, str], Callable[..., Any]]] = {
    "closures of one factory": closure,
    "coroutine functions of one factory": coroutine,
    "partials": lambda log, region: partial(fetch, log, region),
    "partials of a coroutine function": lambda log, region: partial(fetch_async, log, region),
    "partials that look like what they call": lambda log, region: update_wrapper(partial(fetch, log, region), fetch),
    "methods of objects": method,
    "callable objects": callable_object,
    "lambdas": lambda log, region: lambda ctx: log.lines.append(f"{ctx.job} {region}"),
}


@pytest.mark.spec("U1", "jobs made in a loop")
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_jobs_that_are_made_in_a_loop_run_each_its_own_function(
    app: Itinerary, make: Callable[[Log, str], Callable[..., Any]]
) -> None:
    log = Log()
    for region in REGIONS:
        app.job(f"sync-{region}", every("1h")).task(make(log, region), name="pull")
    ran(app)
    assert sorted(log.lines) == sorted(f"sync-{region} {region}" for region in REGIONS)


@pytest.mark.spec("U1", "jobs made in a loop")
def test_a_decorator_takes_what_a_factory_made_and_names_the_job(app: Itinerary) -> None:
    log = Log()
    for region in REGIONS:
        app.job(every("1h"), name=f"sync-{region}")(closure(log, region))
        app.job(every("1h"), name=f"copy-{region}")(partial(fetch, log, region))
        app.job(every("1h"), name=f"note-{region}")(lambda ctx, region=region: log.lines.append(f"{ctx.job} {region}"))
    ran(app)
    assert len(log.lines) == 9
    assert all(line.split()[0].endswith(line.split()[1]) for line in log.lines)
    titles = {job.name: [task.name for task in app.declared[job.name].definition(0).tasks] for job in app}
    assert titles["sync-eu"] == ["sync"]
    assert titles["copy-eu"] == ["fetch"]
    assert titles["note-eu"] == ["note-eu"], "a lambda has no name, so its task has that of the job"


@pytest.mark.spec("U1", "jobs made in a loop")
def test_requirements_and_hooks_may_be_made_by_a_factory(app: Itinerary) -> None:
    log = Log()

    def ready(region: str) -> Callable[[], bool]:
        def ask() -> bool:
            log.lines.append(f"asked {region}")
            return True

        return ask

    def ended(region: str) -> Callable[[OccurrenceReport], None]:
        return lambda report: log.lines.append(f"ended {report.job} {region}")

    for region in REGIONS[:2]:
        job = app.job(f"sync-{region}", every("1h"))
        job.task(closure(log, region))
        job.requires(python=ready(region))
        job.on_complete(ended(region))
        job.on_complete(ended("again"))
    ran(app)
    assert sorted(log.lines) == sorted(
        line
        for region in REGIONS[:2]
        for line in (
            f"asked {region}",
            f"sync-{region} {region}",
            f"ended sync-{region} {region}",
            f"ended sync-{region} again",
        )
    )


@pytest.mark.spec("D9", "a task is named")
def test_the_stored_name_is_the_same_in_whatever_order_the_jobs_are_declared() -> None:
    names = []
    for regions in (REGIONS, REGIONS[::-1], REGIONS[1:]):
        app = Itinerary(store="memory:", name="here")
        for region in regions:
            app.job(f"sync-{region}", every("1h")).task(closure(Log(), region))
        names.append(python(app, "sync-us"))
    assert names == [[f"{__name__}:closure.<locals>.sync@sync-us/sync"]] * 3


@pytest.mark.spec("D9", "a task is named")
def test_a_function_of_a_module_keeps_its_name_and_is_shared() -> None:
    app = Itinerary(store="memory:", name="here")
    for region in REGIONS:
        app.job(f"sync-{region}", every("1h")).task(ran)
    assert {name for region in REGIONS for name in python(app, f"sync-{region}")} == {f"{__name__}:ran"}


def again() -> Callable[[], None]:
    def ran() -> None: ...

    ran.__qualname__ = "ran"  # as of a function that is defined in a loop, in a module
    return ran


@pytest.mark.spec("U1", "an error says what to write")
@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (
            lambda app: app.job("a", every("1h")).task(lambda: None),
            r'job \'a\': a lambda has no name that its task could have; give one: task\(function, name="load"\)',
        ),
        (
            lambda app: app.job("a", every("1h")).task(Log()),
            r"job 'a': an object of class Log has no name that its task could have",
        ),
        (
            lambda app: app.job(every("1h"))(lambda: None),
            r"has no name that its job could have; give one: app\.job\(schedule, name=…\)",
        ),
        (
            lambda app: [app.job(name, every("1h")).task(again()) for name in "ab"],
            r"ran is registered already, .*; give one another name\. In a loop, have a function make each of them",
        ),
        (
            lambda app: app.job("a", every("1h")).task(closure(Log(), "eu"), executor="process"),
            "where a worker process cannot find it; make it a function of a module, or leave the executor out",
        ),
        (
            lambda app: app.job("a", every("1h")).task(Log().note, executor="process"),
            "is made by the program, or is inside another function, where a worker process cannot find it",
        ),
        (
            lambda app: app.job("a", every("1h")).task(partial(fetch, Log(), "eu"), executor="pod", image="x"),
            "where nobody in a pod can find it; make it a function of a module",
        ),
        (
            lambda app: app.job("a", every("1h")).task(partial(fetch, Log())),
            "wants region, ctx; a task takes ctx, or no argument",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_what_to_write(
    app: Itinerary, declare: Callable[[Itinerary], object], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        declare(app)
