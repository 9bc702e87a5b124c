"""Job files and Python say the same: what is stored is identical, whichever way a job was declared."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from itinerary import Calendar, Itinerary, Retry, cron, every, excluding, iso8601, once, union
from itinerary.errors import ConfigError, JobFileError
from itinerary.jobs.declaration import TASKS_MAX
from itinerary.jobs.job_file.problems import FileProblem
from itinerary.model.config import resolve
from itinerary.model.policies import RecoveryPolicy
from itinerary.schedules import Schedule

TASK = '[[jobs.a.tasks]]\nname = "t"\nshell = ["true"]\n'
JOB = f'[jobs.a]\nschedule = "@daily"\n{TASK}'


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def app_of(text: str, **arguments: Any) -> Itinerary:
    Path("jobs.toml").write_text(text, "utf-8")
    return Itinerary(job_file="jobs.toml", **arguments)


def bodies(app: Itinerary) -> dict[str, str]:
    """What would be stored."""
    return {name: declaration.body(1_767_225_600) for name, declaration in app._declared.items()}


@pytest.mark.spec("U2", "everything that Python can say")
def test_a_file_gives_the_definition_that_the_python_api_gives() -> None:
    app = app_of("""
timezone = "Europe/Berlin"
allow_modules = ["mypackage"]
limits = { api = 5, mail = 1 }

[defaults]
task_timeout = "10m"

[jobs.backup]
schedule = "H 3 * * *"
overlap = "queue"
max_queued = 3
max_active = 2
limits = ["mail", "api"]
mode = "parallel"
failure = "continue"
priority = 7
on_orphan = "rerun"
on_shutdown = "cancel"
timezone = "America/New_York"
task_timeout = 300
execution_timeout = "2h"
recovery = { strategy = "bounded_window", max_occurrences = 100, max_duration = "24h" }
retry = { max_retries = 3, retry_interval = "30s", backoff_factor = 2, interval_max = "1h", jitter = "5s", \
never_retry = ["ValueError", "package.Own"] }
requires = [
  { job = "import", on_unmet = "wait", every = "30s", deadline = "1h" },
  { file = "ready", on_unmet = "skip" },
  { http = "https://example.com/ready" },
  { sql = "select 1", on_unmet = "fail" },
  { python = "mypackage.checks:ready", on_unmet = "act", action = "mypackage.checks:prepare" },
]
on_start = "mypackage.hooks:begun"
on_complete = ["mypackage.hooks:ended", "mypackage.hooks:told"]

[[jobs.backup.tasks]]
name = "dump"
shell = ["pg_dump", "-Fc", "-f", "db.dump"]
env = { PGPASSWORD = { secret = "PG" }, TMPDIR = "scratch" }
cwd = "data"
inherit_env = true
use_shell = false

[[jobs.backup.tasks]]
name = "line"
shell = "pg_dump | gzip"
use_shell = true
inherit_env = false
task_timeout = "1h"

[[jobs.backup.tasks]]
name = "report"
python = "mypackage.reports:send"
failure = "continue"
executor = "process"
retry = { max_retries = 10 }

[[jobs.backup.tasks]]
name = "call"
http = "https://example.com/done"
method = "PUT"
headers = { Authorization = { secret = "API" }, Accept = "text/plain" }
body = { on = 2026-01-31, items = [1, 2.5, true] }
expect = [200, 204]
""")
    python = Itinerary(
        timezone="Europe/Berlin",
        allow_modules=["mypackage"],
        limits={"api": 5, "mail": 1},
        defaults={"task_timeout": "10m"},
    )
    backup = python.job(
        "backup",
        cron("H 3 * * *"),
        overlap="queue",
        max_queued=3,
        max_active=2,
        limits=["api", "mail"],
        mode="parallel",
        failure="continue",
        priority=7,
        on_orphan="rerun",
        on_shutdown="cancel",
        timezone="America/New_York",
        task_timeout="5m",
        execution_timeout="2h",
        recovery=RecoveryPolicy("bounded_window", 100, "1d"),
        retry=Retry(3, "30s", 2.0, "1h", "5s", ["ValueError", "package.Own"]),
    )
    backup.shell(
        "dump",
        ["pg_dump", "-Fc", "-f", "db.dump"],
        env={"PGPASSWORD": {"secret": "PG"}, "TMPDIR": "scratch"},
        cwd="data",
    )
    backup.shell("line", "pg_dump | gzip", use_shell=True, inherit_env=False, task_timeout="1h")
    backup._declaration.add_task(
        "report",
        {"python": "mypackage.reports:send"},
        {"failure": "continue", "executor": "process", "retry": Retry(10)},
    )
    backup.http(
        "call",
        "https://example.com/done",
        method="PUT",
        headers={"Authorization": {"secret": "API"}, "Accept": "text/plain"},
        body={"on": "2026-01-31", "items": [1, 2.5, True]},
        expect=(200, 204),
    )
    backup.requires(job="import", on_unmet="wait", every="30s", deadline="1h")
    backup.requires(file="ready", on_unmet="skip")
    backup.requires(http="https://example.com/ready")
    backup.requires(sql="select 1", on_unmet="fail")
    backup.requires(python="mypackage.checks:ready", on_unmet="act", action="mypackage.checks:prepare")
    backup._declaration.add_hook("mypackage.hooks:begun", is_start=True)
    backup._declaration.add_hook("mypackage.hooks:ended", is_start=False)
    backup._declaration.add_hook("mypackage.hooks:told", is_start=False)
    assert bodies(app) == bodies(python)
    assert app.configuration == python.configuration


HOLIDAYS = Calendar("holidays", dates=["2026-12-25"], blackouts=[("2026-12-31T18:00", "2027-01-01T06:00")])
CALENDARS = """
[calendars.holidays]
dates = [2026-12-25]
blackouts = [["2026-12-31T18:00", 2027-01-01T06:00:00]]
"""


@pytest.mark.spec("K1", "job files")
def test_a_pod_in_a_file_is_the_pod_that_python_makes() -> None:
    written = app_of("""
allow_modules = ["mypackage"]

[jobs.train]
schedule = "0 5 * * *"

[[jobs.train.tasks]]
name = "fit"
pod = { namespace = "jobs", command = ["train", "-v"], image = "local/train:1", env = { DAY = "1" } }

[[jobs.train.tasks]]
name = "score"
python = "mypackage.models:score"
executor = "pod"
pod = { resources = { limits = { memory = "64Mi" } }, image = "local/app:1" }
""")
    app = Itinerary(allow_modules=["mypackage"])
    train = app.job("train", cron("0 5 * * *"))
    train.pod("fit", image="local/train:1", command=["train", "-v"], namespace="jobs", env={"DAY": "1"})

    def score() -> None: ...

    score.__module__, score.__qualname__ = "mypackage.models", "score"
    train.task(executor="pod", image="local/app:1", pod={"resources": {"limits": {"memory": "64Mi"}}})(score)
    assert bodies(written) == bodies(app)


@pytest.mark.spec("U2", "every kind of schedule")
@pytest.mark.parametrize(
    ("written", "schedule"),
    [
        ('"0 5 * * 1-5"', cron("0 5 * * 1-5")),
        ('"@reboot"', cron("@reboot")),
        ('"H(0-7) * * * *"', cron("H(0-7) * * * *")),
        (
            '{ cron = "0 5 * * *", tz = "Asia/Tokyo", gap = "skip", repeat = "both", jitter = "10s" }',
            cron("0 5 * * *", tz="Asia/Tokyo", gap="skip", repeat="both", jitter="10s"),
        ),
        ('{ every = "15m" }', every("15m")),
        ("{ every = 90, start = 2026-01-01T00:00:00Z }", every("90s", start="2026-01-01T00:00:00Z")),
        ('{ every = "1h", end = "2026-06-01T00:00" }', every("1h", end="2026-06-01T00:00")),
        ('{ iso8601 = "R/2026-01-31T09:00/P1M" }', iso8601("R/2026-01-31T09:00/P1M")),
        ('{ iso8601 = "P3W" }', iso8601("P3W")),
        ('{ once = "2026-12-31T23:59:00Z" }', once("2026-12-31T23:59:00Z")),
        ("{ once = 2026-12-31T23:59:00+01:00 }", once("2026-12-31T22:59:00Z")),
        ("{ once = 2026-12-31T23:59:00 }", once("2026-12-31T23:59:00")),
        ("{ reboot = true }", cron("@reboot")),
        (
            '{ union = ["0 9 * * 1-5", { every = "1h" }], tz = "Asia/Tokyo" }',
            union(cron("0 9 * * 1-5"), every("1h"), tz="Asia/Tokyo"),
        ),
        (
            '{ excluding = "holidays", schedule = "0 5 * * *", shift = "next" }',
            excluding(cron("0 5 * * *"), HOLIDAYS, "next"),
        ),
        (
            '{ excluding = { name = "x", dates = [2026-12-25] }, schedule = { every = "6h" } }',
            excluding(every("6h"), Calendar("x", dates=[date(2026, 12, 25)])),
        ),
        (
            '{ union = ["0 9 * * *", { excluding = "holidays", schedule = "0 5 * * *" }] }',
            union(cron("0 9 * * *"), excluding(cron("0 5 * * *"), HOLIDAYS)),
        ),
    ],
)
def test_a_schedule_is_the_one_that_python_makes(written: str, schedule: Schedule) -> None:
    app = app_of(f"[jobs.a]\nschedule = {written}\n{TASK}{CALENDARS}")
    python = Itinerary()
    python.job("a", schedule).shell("t", ["true"])
    assert bodies(app) == bodies(python)


def test_jobs_keep_the_order_of_the_file_and_have_any_name() -> None:
    app = app_of(
        "".join(
            f'[jobs.{name}]\nschedule = "@daily"\ntasks = [{{ name = "t", shell = ["x"] }}]\n'
            for name in ["z", '"a b.c"', '"é"', "1"]
        )
    )
    assert [job.name for job in app] == ["z", "a b.c", "é", "1"]


@pytest.mark.spec("U2", "settings in the same file")
def test_arguments_come_before_the_environment_and_that_before_the_job_file_and_that_before_itinerary_toml(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("itinerary.toml").write_text(
        'name = "d"\nstore = "memory:d"\ngrace_period = "4s"\nkill_grace = "4s"\n', "utf-8"
    )
    monkeypatch.setenv("ITINERARY_STORE", "memory:b")
    monkeypatch.setenv("ITINERARY_NAME", "b")
    text = 'name = "c"\nstore = "memory:c"\ngrace_period = "3s"\n[jobs.a]\nschedule = "@daily"\n' + TASK
    configuration = app_of(text, name="a").configuration
    assert (configuration.name, configuration.store) == ("a", "memory:b")
    assert (configuration.settings.grace_period, configuration.settings.kill_grace) == (3_000_000, 4_000_000)


@pytest.mark.spec("U2", "settings in the same file")
def test_two_places_that_contradict_each_other_are_told_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_LOOKAHEAD_WINDOW", "30s")
    with pytest.raises(ConfigError, match=r"^jobs.toml:1: index_rebuild_interval \(40s\) must be shorter"):
        app_of('index_rebuild_interval = "40s"\n[jobs.a]\nschedule = "@daily"\n' + TASK)


@pytest.mark.spec("U13", "the job file")
def test_settings_of_a_job_file_are_read_again() -> None:
    text = 'recovery_pace = 10\n[jobs.a]\nschedule = "@daily"\n' + TASK
    app = app_of(text)
    Path("jobs.toml").write_text(text.replace("10", "20"), "utf-8")
    assert app._reread().changed == {"recovery_pace": "10 -> 20"}
    Path("jobs.toml").write_text(text.replace("10", "-1"), "utf-8")
    with pytest.raises(JobFileError, match=r"^jobs.toml:1: recovery_pace: -1 is out of range 1-10000000$"):
        app._reread()
    assert app.configuration.settings.recovery_pace == 20


@pytest.mark.spec("Q3", "only from modules that the operator allows")
@pytest.mark.parametrize(
    ("allowed", "name"), [("etl", "etl:run"), ("etl", "etl.daily:run"), ("etl.daily", "etl.daily:run")]
)
def test_functions_are_named_from_allowed_modules(allowed: str, name: str) -> None:
    text = f'[jobs.a]\nschedule = "@daily"\n[[jobs.a.tasks]]\nname = "t"\npython = "{name}"\n'
    assert len(app_of(f'allow_modules = ["{allowed}"]\n{text}')) == 1
    for other in ("et", "etl.daily.deep", "os"):
        with pytest.raises(JobFileError, match="from which no code may be named"):
            app_of(f'allow_modules = ["{other}"]\n{text}')


def test_a_function_is_not_imported_to_read_a_file() -> None:
    text = '[jobs.a]\nschedule = "@daily"\n[[jobs.a.tasks]]\nname = "t"\npython = "there_is_none:run"\n'
    assert len(app_of(f'allow_modules = ["there_is_none"]\n{text}')) == 1


def test_jobs_of_a_file_and_of_the_program_stand_side_by_side() -> None:
    app = app_of('[jobs.a]\nschedule = "@daily"\n' + TASK)
    app.job("b", every("1h")).shell("t", ["true"])
    assert [job.name for job in app] == ["a", "b"]
    with pytest.raises(ConfigError, match="job 'a' is declared already"):
        app.job("a", every("1h"))


def test_a_job_has_so_many_tasks_and_no_more() -> None:
    tasks = "".join(f'[[jobs.a.tasks]]\nname = "{number}"\nshell = ["x"]\n' for number in range(TASKS_MAX + 1))
    with pytest.raises(
        JobFileError, match=rf"^jobs.toml:3004: jobs.a.tasks\[{TASKS_MAX}\].name: job 'a' has {TASKS_MAX} tasks"
    ):
        app_of(f'[jobs.a]\nschedule = "@daily"\n{tasks}')


@pytest.mark.spec("S1", "warned")
def test_what_somebody_may_not_have_meant_is_told_with_its_line() -> None:
    app = app_of('[jobs.a]\nschedule = { union = ["0 5 * * *", "0 0 */2 * 1"] }\n' + TASK)
    assert app.job_file is not None
    (warning,) = app.job_file.warnings(list(app._declared.values()))
    assert isinstance(warning, FileProblem)
    assert str(warning).startswith("jobs.toml:2: jobs.a.schedule: ")


def test_a_requirement_of_a_job_that_is_not_there_is_told_with_its_line() -> None:
    app = app_of(
        '[jobs.import]\nschedule = "@daily"\ntasks = [{ name = "t", shell = ["x"] }]\n'
        '[jobs.a]\nschedule = "@daily"\nrequires = [{ job = "import" },\n  { job = "imprt" },\n  { job = "zz" }]\n'
        + TASK
    )
    assert app.job_file is not None
    assert [str(warning) for warning in app.job_file.warnings(list(app.declared.values()))] == [
        "jobs.toml:7: jobs.a.requires[1].job: there is no job 'imprt' in this file; did you mean 'import'?",
        "jobs.toml:8: jobs.a.requires[2].job: there is no job 'zz' in this file; the store must have it from elsewhere",
    ]


def test_the_time_of_a_moment_in_toml_is_kept() -> None:
    app = app_of("[jobs.a]\nschedule = { once = 2026-12-31T23:59:00-05:00 }\n" + TASK)
    assert app["a"].schedule.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2027, 1, 1, 4, 59, tzinfo=UTC)


@pytest.mark.spec("U2", "one environment for all jobs")
def test_the_environment_of_the_defaults_is_that_of_every_command_and_its_own_variables_come_first() -> None:
    app = app_of("""
[defaults]
env = { PATH = "/opt/bin", TOKEN = { secret = "API" } }

[jobs.a]
schedule = "@daily"
tasks = [{ name = "plain", shell = ["a"], input = "x" }, { name = "own", shell = ["b"], env = { PATH = "/bin" } }]

[jobs.b]
schedule = "@daily"
tasks = [{ name = "call", http = "https://example.com" }]
""")
    tasks = {
        task.name: task.definition
        for declaration in app.declared.values()
        for task in declaration.definition(registered_at=0).tasks
    }
    assert tasks == {
        "plain": {"shell": ["a"], "env": {"PATH": "/opt/bin", "TOKEN": {"secret": "API"}}, "input": "x"},
        "own": {"shell": ["b"], "env": {"PATH": "/bin", "TOKEN": {"secret": "API"}}},
        "call": {"http": "https://example.com"},
    }
    python = Itinerary(defaults={"env": {"PATH": "/opt/bin", "TOKEN": {"secret": "API"}}})
    python.job("a", cron("@daily")).shell("plain", ["a"], input="x").shell("own", ["b"], env={"PATH": "/bin"})
    python.job("b", cron("@daily")).http("call", "https://example.com")
    assert bodies(python) == bodies(app)


@pytest.mark.spec("U2", "errors name file, line and key")
@pytest.mark.spec("X4", "timeouts that contradict each other")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f'[defaults]\nenv = {{ "A=B" = "1" }}\n{JOB}',
            "jobs.toml:2: defaults.env: 'A=B' is not the name of a variable",
        ),
        (
            f'[defaults]\ntask_timeout = "2h"\n{JOB}',
            (
                "jobs.toml:2: defaults.task_timeout: 2h is longer than execution_timeout, 1h, which ends the run "
                "first; set a longer execution_timeout, or leave task_timeout out"
            ),
        ),
        (
            f'[jobs.a]\nschedule = "@daily"\nexecution_timeout = "1h"\ntask_timeout = "2h"\n{TASK}',
            (
                "jobs.toml:4: jobs.a.task_timeout: 2h is longer than execution_timeout, 1h, which ends the run first; "
                "set a longer execution_timeout, or leave task_timeout out"
            ),
        ),
        (
            f'[jobs.a]\nschedule = "@daily"\n{TASK}task_timeout = "90m"\n',
            (
                "jobs.toml:6: jobs.a.tasks[0].task_timeout: 1h30m is longer than execution_timeout, 1h, which ends "
                "the run first; set a longer execution_timeout, or leave task_timeout out"
            ),
        ),
        (
            f'[jobs.a]\nschedule = "@daily"\n{TASK}input = 3\n',
            'jobs.toml:6: jobs.a.tasks[0].input: 3 is neither text nor a reference such as {"secret": "NAME"}',
        ),
    ],
    ids=["env", "defaults", "job", "task", "input"],
)
def test_what_is_wrong_with_the_environment_timeouts_and_input_is_told_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(JobFileError) as caught:
        app_of(text)
    assert str(caught.value) == problem


@pytest.mark.spec("X4", "timeouts that contradict each other")
def test_a_backup_whose_timeout_line_is_removed_may_take_as_long_as_its_run() -> None:
    app = app_of(f'[defaults]\nexecution_timeout = "7d"\n[jobs.a]\nschedule = "@daily"\n{TASK}')
    assert ("task_timeout", "1w", "settings") in resolve(settings=app.configuration.defaults).rows()
