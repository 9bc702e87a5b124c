"""Jobs are checked as they are declared, line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, Retry, cron, every, excluding, iso8601, once
from itinerary.errors import ConfigError, ItineraryError, ScheduleError
from itinerary.model import Occurrence


@pytest.fixture
def app() -> Itinerary:
    return Itinerary(store="memory:", name="here", limits={"api": 2})


def stored(app: Itinerary, name: str, registered_at: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(app._declaration(name).body(registered_at))
    return found


async def report(ctx: ExecutionContext) -> None: ...


def plain() -> None: ...


def notify(report: OccurrenceReport) -> None: ...


def greet(occurrence: Occurrence) -> None: ...


@pytest.mark.spec("U1", "decorators")
def test_a_decorated_function_is_a_job_of_one_task_and_stays_what_it_is(app: Itinerary) -> None:
    decorated = app.job(every("15m"), overlap="queue", retry=Retry(3, "30s", 2.0))(report)
    assert decorated is report
    assert [job.name for job in app] == ["report"]
    definition = stored(app, "report")
    assert [(task["name"], task["definition"]) for task in definition["tasks"]] == [
        ("report", {"python": f"{__name__}:report"})
    ]
    assert definition["overrides"] == {
        "overlap": "queue",
        "retry": {"max_retries": 3, "retry_interval": "30s", "backoff_factor": 2.0},
    }


@pytest.mark.spec("U1", "plain calls")
@pytest.mark.spec("D2", "tasks")
@pytest.mark.spec("D9", "definitions are JSON, code is named")
def test_a_handle_takes_tasks_of_every_kind_in_their_order(app: Itinerary) -> None:
    etl = app.job("etl", every("15m"), mode="parallel")
    etl.task(plain)
    etl.task(name="again", failure="continue", executor="thread")(plain)
    etl.shell("compress", ["gzip", "-9", "out.csv"], env={"TMPDIR": "scratch"}, cwd="data", task_timeout="5m")
    etl.http("call", "https://example.org/hook", method="POST", headers={"X-Key": {"secret": "KEY"}}, body={"a": 1})
    tasks = stored(app, "etl")["tasks"]
    assert [task["name"] for task in tasks] == ["plain", "again", "compress", "call"]
    assert [task["order"] for task in tasks] == [0, 1, 2, 3]
    assert tasks[2]["definition"] == {
        "shell": ["gzip", "-9", "out.csv"],
        "env": {"TMPDIR": "scratch"},
        "cwd": "data",
    }
    assert tasks[3]["definition"]["headers"] == {"X-Key": {"secret": "KEY"}}
    assert tasks[1]["overrides"] == {"failure": "continue", "executor": "thread"}


@pytest.mark.spec("X7", "declared")
@pytest.mark.spec("O3", "declared")
def test_hooks_and_requirements_are_named_in_the_definition(app: Itinerary) -> None:
    etl = app.job("etl", every("15m"))
    etl.on_start(greet)
    etl.on_complete(notify)
    etl.requires(job="import", on_unmet="wait", every="30s", deadline="1h").requires(python=plain, on_unmet="skip")
    definition = stored(app, "etl")
    assert definition["on_start"] == [f"{__name__}:greet"]
    assert definition["on_complete"] == [f"{__name__}:notify"]
    assert [requirement.get("job") or requirement.get("python") for requirement in definition["requires"]] == [
        "import",
        f"{__name__}:plain",
    ]


@pytest.mark.spec("L11", "a name twice")
def test_a_name_is_declared_once(app: Itinerary) -> None:
    app.job("etl", every("15m")).task(plain)
    with pytest.raises(ConfigError, match="job 'etl' is declared already"):
        app.job("etl", every("1h"))
    with pytest.raises(ConfigError, match="has a task 'plain' already"):
        app["etl"].task(plain)


@pytest.mark.spec("S2", "expanded at registration")
@pytest.mark.spec("S4", "anchored at registration")
@pytest.mark.spec("S8", "the setting's zone")
def test_what_a_schedule_leaves_open_is_filled_in_by_its_job() -> None:
    app = Itinerary(store="memory:", timezone="Europe/Berlin")
    app.job("spread", cron("H 3 * * *")).task(plain)
    app.job("counted", iso8601("PT90M")).task(plain)
    app.job("abroad", cron("0 5 * * *"), timezone="Asia/Tokyo").task(plain)
    spread = stored(app, "spread")["schedule"]
    assert spread["written"] == "H 3 * * *"
    assert "H" not in spread["cron"]
    assert spread["tz"] == "Europe/Berlin"
    assert stored(app, "counted", 1_767_225_600)["schedule"]["anchored"] == "2026-01-01T00:00:00Z"
    assert stored(app, "abroad")["schedule"]["tz"] == "Asia/Tokyo"


def keyword(wanted: Any) -> None: ...


def three(a: Any, b: Any, c: Any) -> None: ...


Declare = Callable[[Itinerary], object]


@pytest.mark.spec("U1", "checked as it is declared")
@pytest.mark.spec("Q7", "unknown keys of jobs")
@pytest.mark.parametrize(
    ("declare", "told"),
    [
        (lambda app: app.job("a", every("1m"), overlp="skip"), "job 'a': overlp: unknown key; did you mean 'overlap'"),
        (lambda app: app.job("a", every("1m"), overlap="skpi"), "job 'a': overlap: 'skpi' is unknown"),
        (lambda app: app.job("a", every("1m"), limits=["mail"]), "job 'a': limits: nobody says how many shares 'mail'"),
        (lambda app: app.job("a", every("1m"), max_queued=3), "max_queued: has no effect while overlap is skip"),
        (lambda app: app.job("a", "0 5 * * *"), "job 'a': '0 5 * * *' is not a schedule"),
        (lambda app: app.job("a"), "job 'a' has no schedule"),
        (lambda app: app.job("a\nb", every("1m")), "job name 'a\\nb' has the character U+000A"),
        (lambda app: app.job("a", excluding(every("1h"), "holidays")), "holidays"),
        (lambda app: app.job("a", every("1m")).task(three), "wants a, b, c; a task takes ctx"),
        (lambda app: app.job("a", every("1m")).task(overlap="skip")(plain), "overlap: cannot be set on a task"),
        (lambda app: app.job("a", every("1m")).task(executor="async")(plain), "is a plain function"),
        (lambda app: app.job("a", every("1m")).task(executor="thread")(report), "is a coroutine function"),
        (lambda app: app.job("a", every("1m")).shell("s", "rm -rf out"), "task 's': shell: text would have to go"),
        (lambda app: app.job("a", every("1m")).shell("s", []), "task 's': shell: "),
        (lambda app: app.job("a", every("1m")).http("h", "ftp://x"), "task 'h': http: scheme 'ftp' is not allowed"),
        (lambda app: app.job("a", every("1m")).on_complete(plain), "takes one argument"),
        (lambda app: app.job("a", every("1m")).requires(), "give exactly one of"),
        (lambda app: app.job("a", every("1m")).requires(file="x", on_unmet="act"), "requires.action"),
    ],
)
def test_a_mistake_is_told_where_it_is_made(app: Itinerary, declare: Declare, told: str) -> None:
    with pytest.raises(ItineraryError) as caught:
        declare(app)
    assert told in str(caught.value)
    assert "a" not in app or stored(app, "a")["tasks"][0]["name"] == "loop"


@pytest.mark.spec("Q3", "allowed modules")
def test_code_can_only_be_named_from_modules_that_are_allowed(app: Itinerary) -> None:
    with pytest.raises(ConfigError, match=r"'os:system' is not registered"):
        app.job("a", every("1m")).requires(python="os:system")
    allowing = Itinerary(store="memory:", allow_modules=["os"])
    allowing.job("a", every("1m")).requires(python="os:getcwd")
    assert [requirement["python"] for requirement in stored(allowing, "a")["requires"]] == ["os:getcwd"]


@pytest.mark.spec("Q4", "definition")
def test_a_definition_has_a_limit(app: Itinerary) -> None:
    job = app.job("a", every("1m"))
    for number in range(4):
        job.shell(f"s{number}", ["x" * 70_000])
    with pytest.raises(ConfigError, match="bytes of JSON, 262144 are allowed"):
        stored(app, "a")


def test_an_expression_that_is_wrong_is_told_by_its_schedule() -> None:
    with pytest.raises(ScheduleError):
        once("yesterday")


def test_a_job_that_nobody_declared_is_not_there(app: Itinerary) -> None:
    with pytest.raises(KeyError, match="no job 'etl' is declared here"):
        app["etl"]
    assert "etl" not in app
    assert len(app) == 0
