"""Job files on the command line: check, plan, apply and import-crontab (U2, U3, R7)."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary.cli import crontab
from itinerary.cli.load_app import load_app
from itinerary.cli.main import app as command_line
from itinerary.jobs.registration import register
from itinerary.model.queries import EntriesQuery, JobsQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.stores import open_store
from tests.unit.jobs.test_registration import LOG

STORE = "sqlite:///itinerary.db"
TWO = """
store = "sqlite:///itinerary.db"
timezone = "Asia/Tokyo"

[jobs.backup]
schedule = "0 3 * * *"
tasks = [{ name = "dump", shell = ["pg_dump"] }, { name = "pack", shell = ["gzip"] }]

[jobs.report]
schedule = { every = "6h" }
tasks = [{ name = "send", shell = ["mail"] }]
"""
BROKEN = '[jobs.a]\nschedule = "61 * * * *"\noverlap = "que"\ntasks = [{ name = "t", shell = ["true"] }]\n'


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(*words: str, given: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(command_line, words, input=given)
    return result.exit_code, result.stdout, result.stderr


def told(*words: str) -> Any:
    code, output, errors = said(*words, "--json")
    assert code == 0, errors
    return msgspec.json.decode(output)


def write(text: str, name: str = "jobs.toml") -> None:
    Path(name).write_text(text, "utf-8")


def entries() -> Sequence[EntryRow]:
    async def read() -> Sequence[EntryRow]:
        async with open_store(STORE) as store:
            return await store.read(EntriesQuery(0))

    return asyncio.run(read())


def versions() -> list[tuple[str, int, str | None]]:
    """The versions that were made, in order."""

    async def read() -> dict[int, str]:
        async with open_store(STORE) as store:
            return {job.number: job.name for job in await store.read(JobsQuery())}

    names = asyncio.run(read())
    return [(names[entry.job], entry.version, entry.reason) for entry in entries() if entry.kind is EntryKind.VERSION]


# -- check -------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("U3", "check")
@pytest.mark.spec("S10", "check")
def test_a_file_that_is_right_is_shown_with_its_schedules_in_words() -> None:
    write(TWO)
    assert said("check", "jobs.toml") == (
        0,
        "jobs.toml: 2 jobs, no mistakes\n  backup: At 03:00, Asia/Tokyo; dump, pack\n  report: Every 6h; send\n",
        "",
    )
    assert told("check", "jobs.toml") == {
        "file": "jobs.toml",
        "jobs": [
            {"job": "backup", "schedule": "At 03:00, Asia/Tokyo", "tasks": ["dump", "pack"]},
            {"job": "report", "schedule": "Every 6h", "tasks": ["send"]},
        ],
        "errors": [],
        "warnings": [],
    }
    assert not Path("itinerary.db").exists()


@pytest.mark.spec("U3", "check")
def test_each_mistake_is_a_line_and_the_exit_code_is_one() -> None:
    write(BROKEN)
    code, output, errors = said("check", "jobs.toml")
    assert (code, output) == (1, "")
    assert [line.partition(": ")[0] for line in errors.splitlines()] == ["jobs.toml:2", "jobs.toml:3"]
    code, output, errors = said("check", "jobs.toml", "--json")
    assert (code, errors) == (1, "")
    assert msgspec.json.decode(output)["errors"][0] == {
        "file": "jobs.toml",
        "line": 2,
        "key": "jobs.a.schedule",
        "message": "cron '61 * * * *': minute 61 is out of range 0-59",
        "column": None,
    }


def test_what_somebody_may_not_have_meant_is_told_and_is_no_mistake() -> None:
    write(TWO.replace("0 3 * * *", "0 3 */2 * 1"))
    code, _, errors = said("check", "jobs.toml")
    assert code == 0
    assert errors.startswith("warning: jobs.toml:6: jobs.backup.schedule: a day field that begins with * counts as *")


@pytest.mark.parametrize("command", ["check", "plan", "apply", "up"])
def test_a_file_that_is_not_there_is_told_in_a_line(command: str) -> None:
    code, _, errors = said(command, "nowhere.toml")
    assert code == 1
    assert errors.removeprefix("itinerary: ") == "nowhere.toml: there is no such file\n"


@pytest.mark.parametrize("command", ["plan", "apply", "up"])
def test_no_command_takes_a_file_with_mistakes(command: str) -> None:
    write(BROKEN)
    code, _, errors = said(command, "jobs.toml")
    assert code == 1
    assert errors.startswith("itinerary: jobs.toml:2: jobs.a.schedule: ")
    assert "\njobs.toml:3: jobs.a.overlap: " in errors
    assert not Path("itinerary.db").exists()


# -- plan and apply ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("U3", "apply")
@pytest.mark.spec("R7", "twice")
def test_a_file_is_applied_once_however_often_that_is_said() -> None:
    write(TWO)
    planned = told("plan", "jobs.toml")
    assert [(job["job"], job["outcome"], job["version"]) for job in planned["jobs"]] == [
        ("backup", "new", 1),
        ("report", "new", 1),
    ]
    assert [len(job["diff"]["added"]) for job in planned["jobs"]] == [1, 4]
    assert (planned["is_applied"], planned["is_change"]) == (False, True)
    assert versions() == []

    code, output, _ = said("apply", "jobs.toml", "--reason", "the first ones")
    assert code == 0
    assert output.splitlines()[0] == "backup: new, At 03:00, Asia/Tokyo"
    assert output.splitlines()[-1] == "applied: 2 new"
    assert versions() == [("backup", 1, "the first ones"), ("report", 1, "the first ones")]
    assert len({entry.revision for entry in entries()}) == 1

    for command in ("apply", "plan"):
        assert said(command, "jobs.toml") == (0, "nothing changes: 2 jobs the same\n", "")
    assert len(versions()) == 2


@pytest.mark.spec("U3", "plan")
@pytest.mark.spec("R7", "shown before it is applied")
def test_a_plan_says_what_changes_and_which_occurrences_come_and_go() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    before = len(entries())
    changed = TWO.replace('{ every = "6h" }\n', '{ every = "8h" }\noverlap = "queue"\n').replace(
        ', { name = "pack", shell = ["gzip"] }', ', { name = "lock", shell = ["gpg"] }'
    )
    write(changed)
    code, output, _ = said("plan", "jobs.toml")
    assert code == 0
    lines = output.splitlines()
    assert lines[0].startswith("backup: version 2, from ")
    assert lines[1:3] == ["  task lock: added", "  task pack: removed"]
    assert lines[3].endswith(": 0 occurrences added, 0 removed, 1 kept")
    assert lines[4].startswith("report: version 2, from ")
    assert lines[5:7] == ["  schedule: Every 6h -> Every 8h", "  overlap: not set -> queue"]
    assert lines[-1] == "would be applied: 2 changed"
    assert said("apply", "jobs.toml", "--dry-run")[1].splitlines()[-1] == lines[-1]
    assert len(entries()) == before

    planned, applied = told("plan", "jobs.toml", "--window", "2d"), told("apply", "jobs.toml", "--window", "2d")
    for one, other in zip(planned["jobs"], applied["jobs"], strict=True):
        assert len(one["diff"]["added"]) == len(other["diff"]["added"])
        assert len(one["diff"]["removed"]) == len(other["diff"]["removed"])
        assert one["differences"] == other["differences"]
    report = applied["jobs"][1]["diff"]
    assert (len(report["added"]), len(report["removed"]), len(report["kept"])) == (4, 6, 2)
    assert versions()[2:] == [("backup", 2, "applied"), ("report", 2, "applied")]


@pytest.mark.spec("R7", "graceful")
def test_a_policy_says_when_a_change_counts() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    write(TWO.replace('"6h"', '"8h"'))
    (_, report) = told("plan", "jobs.toml", "--policy", "graceful")["jobs"]
    assert report["diff"]["effective_from"] > report["diff"]["window_start"]
    assert report["diff"]["policy"] == "graceful"
    assert report["diff"]["first_at"] > report["diff"]["effective_from"]
    assert f"first run {report['diff']['first_at']}" in said("plan", "jobs.toml", "--policy", "graceful")[1]
    assert told("plan", "jobs.toml", "--policy", "windowed")["jobs"][1]["diff"]["policy"] == "windowed"
    write('update_policy = "graceful"\n' + TWO.replace('"6h"', '"8h"'))
    assert told("apply", "jobs.toml")["jobs"][1]["diff"]["policy"] == "graceful"
    assert told("apply", "jobs.toml")["is_change"] is False


@pytest.mark.spec("D10", "apply")
def test_what_is_not_in_the_file_stays_unless_it_is_named() -> None:
    write(TWO, "both.toml")
    told("apply", "both.toml")
    write(TWO.partition("[jobs.report]")[0])
    code, output, _ = said("apply", "jobs.toml")
    assert code == 0
    assert output == "nothing changes: 1 job the same\nnot in the file, and left as they are: report\n"

    code, output, _ = said("plan", "jobs.toml", "--remove", "report")
    assert output.splitlines()[0] == "report: removed"
    assert output.splitlines()[-1] == "would be applied: 1 same, 1 removed"
    (_, removed) = told("apply", "jobs.toml", "--remove", "report", "--reason", "no longer read")["jobs"]
    assert removed["outcome"] == "removed"
    assert len(removed["diff"]["removed"]) == 4
    last = entries()[-1]
    assert (last.kind, last.reason) == (EntryKind.REMOVE, "no longer read")
    assert told("apply", "jobs.toml", "--remove", "report")["is_change"] is False

    write(TWO)
    assert [job["outcome"] for job in told("apply", "jobs.toml")["jobs"]] == ["same", "new"]
    assert versions()[-1] == ("report", 2, "applied")


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_job_that_was_deleted_from_the_file_is_planned_and_stopped_and_starts_again_with_its_line() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    write(TWO.partition("[jobs.report]")[0])
    why = f"no longer declared in {Path.cwd() / 'jobs.toml'}"
    _, output, _ = said("plan", "jobs.toml")
    assert output.replace("\n  ", " ").splitlines()[0].startswith(f"report: stopped, {why}")
    assert output.splitlines()[-1] == "would be applied: 1 same, 1 stopped"
    assert len(entries()) == 3, "a zone and two versions: nothing is changed"
    (_, stopped) = told("apply", "jobs.toml")["jobs"]
    assert (stopped["outcome"], stopped["why"], len(stopped["diff"]["removed"])) == ("stopped", why, 4)
    assert (entries()[-1].kind, entries()[-1].reason) == (EntryKind.STOP, why)
    assert told("apply", "jobs.toml")["is_change"] is False

    write(TWO)
    (_, started) = told("apply", "jobs.toml")["jobs"]
    assert (started["outcome"], len(started["diff"]["added"])) == ("started", 4)
    assert told("apply", "jobs.toml")["is_change"] is False


def test_a_job_that_never_ran_has_no_run_on_record() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    assert said("history", "report") == (0, "report has no run on record\n", "")
    assert said("history", "report", "--state", "failed") == (0, "report has no such run on record\n", "")


@pytest.mark.spec("D10", "undeclared jobs")
def test_jobs_that_were_deleted_from_the_file_are_pruned_or_kept_if_that_is_chosen() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    only = TWO.partition("[jobs.report]")[0]
    write(only)
    code, output, _ = said("apply", "jobs.toml", "--keep")
    assert (code, output) == (
        0,
        "nothing changes: 1 job the same\nno longer in jobs.toml, and kept: report; --prune removes them\n",
    )
    write('undeclared = "keep"\n' + only)
    assert told("apply", "jobs.toml")["undeclared"] == ["report"]
    code, _, errors = said("apply", "jobs.toml", "--keep", "--prune")
    assert (code, errors) == (1, "itinerary: --prune and --keep contradict each other; give one of them\n")
    assert told("apply", "jobs.toml", "--prune")["counts"]["removed"] == 1
    assert entries()[-1].kind is EntryKind.REMOVE
    write('undeclared = "delete"\n' + only)
    code, _, errors = said("check", "jobs.toml")
    assert (code, errors) == (
        1,
        "jobs.toml:1: undeclared: 'delete' is unknown; allowed: keep, stop, remove\n",
    )


@pytest.mark.spec("R7", "shown before it is applied")
def test_the_plan_shows_the_commands_that_change() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    write(TWO.replace('shell = ["pg_dump"]', 'shell = ["pg_dump", "--clean", "my db"], cwd = "/srv"'))
    (backup, _) = told("plan", "jobs.toml")["jobs"]
    assert backup["differences"] == [
        "task dump: shell: pg_dump -> pg_dump --clean 'my db'",
        "task dump: cwd: not set -> /srv",
    ]
    long = "x" * 400
    write(TWO.replace('["pg_dump"]', f'["{long}", "a"]'))
    told("apply", "jobs.toml")
    write(TWO.replace('["pg_dump"]', f'["{long}", "b"]'))
    (line,) = told("plan", "jobs.toml")["jobs"][0]["differences"]
    assert line == f"task dump: shell: …{'x' * 39} a -> …{'x' * 39} b"


@pytest.mark.parametrize(
    ("job", "why"),
    [("report", "is declared here; take one of the two back"), ("nobody", "is not in the store; see how it is spelt")],
)
def test_what_cannot_be_removed_is_told_and_nothing_is_changed(job: str, why: str) -> None:
    write(TWO)
    told("apply", "jobs.toml")
    write(TWO.replace('"6h"', '"8h"'))
    code, _, errors = said("apply", "jobs.toml", "--remove", job)
    assert (code, errors) == (1, f"itinerary: job {job!r} is to be removed, and {why}\n")
    assert len(versions()) == 2


def test_a_node_that_starts_with_the_same_file_changes_nothing() -> None:
    write(TWO)
    told("apply", "jobs.toml")
    write(TWO.replace('"6h"', '"8h"'))
    told("apply", "jobs.toml")
    before = versions()

    async def start() -> None:
        app, _ = load_app("jobs.toml")
        async with open_store(STORE) as store:
            await register(store, app.declared, by="anna", log=LOG)

    asyncio.run(start())
    assert versions() == before


@pytest.mark.spec("U2", "app and job file are applied alike")
def test_an_app_is_planned_and_applied_like_a_file() -> None:
    write(
        'from itinerary import Itinerary, every\napp = Itinerary()\n@app.job(every("6h"))\ndef tidy(): ...\n',
        "tidy_app.py",
    )
    assert said("check", "tidy_app.py")[1].splitlines()[1] == "  tidy: Every 6h; tidy"
    assert [job["outcome"] for job in told("apply", "tidy_app.py")["jobs"]] == ["new"]


def test_the_store_of_the_command_comes_before_that_of_the_file() -> None:
    write(TWO)
    told("apply", "jobs.toml", "--store", "sqlite:///other.db")
    assert Path("other.db").exists()
    assert not Path("itinerary.db").exists()


# -- a narrow terminal -------------------------------------------------------------------------------------------------


# -- import-crontab ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("U2", "a crontab can be imported")
@pytest.mark.spec("Q7", "files are readable by their owner only")
def test_a_crontab_becomes_a_file_that_passes_check() -> None:
    write("MAILTO=anna\n0 3 * * * backup\n@reboot start\n", "crontab")
    code, output, errors = said("import-crontab", "crontab", "-o", "jobs.toml", "--timezone", "Europe/Berlin")
    assert (code, output) == (1, "")
    assert [line.partition("; ")[0] for line in errors.splitlines()] == [
        "crontab:1: MAILTO=anna: Itinerary sends no mail",
        "crontab:3: not translated: @reboot runs when the machine starts, and a node does not know when that is",
        "crontab: 1 job in jobs.toml, Europe/Berlin",
    ]
    assert errors.splitlines()[-1].endswith("; 1 line not translated")
    assert stat.S_IMODE(os.stat("jobs.toml").st_mode) == 0o600  # noqa: PTH116 - the mode itself
    assert said("check", "jobs.toml")[:2] == (
        0,
        "jobs.toml: 1 job, no mistakes\n  backup: At 03:00, Europe/Berlin; run\n",
    )


@pytest.mark.spec("U2", "a crontab can be imported")
def test_a_crontab_may_come_from_a_pipe_and_go_into_one() -> None:
    code, output, errors = said("import-crontab", "-", "--timezone", "UTC", given="0 3 * * * root backup\n")
    assert code == 0
    assert '[jobs.backup]\nschedule = "0 3 * * *"\n' in output
    assert errors.splitlines()[-1] == "the crontab: 1 job, UTC; each line names a user"
    assert "[jobs.root]" not in output
    assert '"root backup"' in said("import-crontab", "-", "--user", given="0 3 * * * root backup\n")[1]


def test_a_file_that_is_there_is_written_over_only_if_that_is_said() -> None:
    write("0 3 * * * backup\n", "crontab")
    write("mine", "jobs.toml")
    code, _, errors = said("import-crontab", "crontab", "-o", "jobs.toml")
    assert (code, errors) == (1, "itinerary: jobs.toml: this file exists already; name another one, or say --force\n")
    assert Path("jobs.toml").read_text("utf-8") == "mine"
    assert said("import-crontab", "crontab", "-o", "jobs.toml", "--force")[0] == 0
    assert said("check", "jobs.toml")[0] == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "itinerary: nowhere: there is no such file"),
        (["crontab", "--timezone", "Europe/Berln"], "itinerary: time zone 'Europe/Berln' is unknown"),
        (["crontab", "-o", "no/where.toml"], "itinerary: no/where.toml: it cannot be written: No such file"),
        (["latin1"], "latin1:1: not translated: byte 0xe9 is not UTF-8, as a job file is; convert the crontab"),
    ],
)
def test_a_crontab_that_cannot_be_read_or_written_is_told_in_a_line(words: list[str], told: str) -> None:
    write("0 3 * * * backup\n", "crontab")
    Path("latin1").write_bytes(b"0 3 * * * caf\xe9\n")
    code, _, errors = said("import-crontab", *words)
    assert code == 1
    assert errors.startswith(told)


@pytest.mark.spec("U2", "files of other machines")
def test_a_crontab_in_latin_1_is_imported_without_the_line_that_is_not_utf_8() -> None:
    Path("latin1").write_bytes(b"# caf\xe9\n0 3 * * * backup\n0 4 * * * caf\xe9\n")
    code, _, errors = said("import-crontab", "latin1", "-o", "jobs.toml", "--timezone", "UTC")
    assert code == 1
    assert errors.splitlines()[-1] == "latin1: 1 job in jobs.toml, UTC; 1 line not translated"
    assert said("check", "jobs.toml")[0] == 0


@pytest.mark.spec("U2", "files of other machines")
def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    for source, given in (("bom", None), ("-", "\ufeff0 3 * * * backup\n")):
        write("\ufeff0 3 * * * backup\n", "bom")
        code, output, _ = said("import-crontab", source, "--timezone", "UTC", given=given)
        assert code == 0
        assert '[jobs.backup]\nschedule = "0 3 * * *"\n' in output


@pytest.mark.spec("U2", "system crontabs")
def test_a_system_crontab_is_recognised_by_where_it_is_however_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crontab, "_SYSTEM", (str(Path("etc/cron.d").absolute()) + "/",))
    Path("etc/cron.d").mkdir(parents=True)
    write("0 3 * * * carl backup\n", "etc/cron.d/shop")
    monkeypatch.chdir("etc/cron.d")
    code, output, errors = said("import-crontab", "shop", "--timezone", "UTC")
    assert code == 0
    assert "[jobs.backup]" in output
    assert errors.splitlines()[-1] == "shop: 1 job, UTC; each line names a user"
