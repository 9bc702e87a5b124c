"""`itinerary doctor`, `migrate` and `prune` (U3, D7, D8, Q7)."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary
from itinerary.cli.main import app as command_line
from itinerary.config.configuration import read_configuration
from itinerary.operations.doctor import DoctorReport, Severity, examined
from itinerary.operations.operator import local_user
from itinerary.stores.urls import open_store, schema_at
from tests.hours import HOURLY


def said(url: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, [*words, "--store", url])
    return result.exit_code, (result.stdout or result.stderr).strip()


def told(url: str, *words: str) -> tuple[int, Any]:
    code, output = said(url, *words, "--json")
    return code, msgspec.json.decode(output)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "itinerary.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


def levels(found: Any) -> dict[str, str]:
    return {finding["about"]: finding["level"] for finding in found["findings"]}


# -- doctor ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("U3", "doctor")
def test_a_store_with_a_node_that_runs_is_well(url: str) -> None:
    app = Itinerary(store=url, name="here")
    app.job("etl", HOURLY).task(len)
    with app.running():
        code, found = told(url, "doctor")
    assert (code, found["is_well"]) == (0, True), found
    assert set(levels(found).values()) == {"well"}
    assert list(levels(found)) == [
        "store",
        "files",
        "disk",
        "set-up",
        "clock",
        "zone data",
        "nodes",
        "jobs",
        "decided",
        "waiting",
        "overtime",
        "failures",
        "orphans",
        "alerts",
    ]


@pytest.mark.spec("U3", "doctor")
def test_a_doctor_says_what_is_wrong_in_a_sentence_and_what_to_do_about_it(url: str) -> None:
    app = Itinerary(store=url, name="here")
    app.job("etl", HOURLY).task(len)
    with app.running():
        pass
    code, output = said(url, "doctor")
    assert code == 1
    assert "wrong     nodes: no node runs on this store, so no job runs\n          → `itinerary up APP`" in output
    assert output.splitlines()[-1] == "1 wrong, 0 doubtful, 13 well"


@pytest.mark.spec("U3", "doctor")
def test_a_doctor_makes_no_store_and_touches_none_that_is_not_ours(url: str, path: Path) -> None:
    code, found = told(url, "doctor")
    assert (code, levels(found)) == (1, {"store": "wrong"})
    assert not path.exists()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (one)")
    before = path.read_bytes()
    code, found = told(url, "doctor")
    assert (code, levels(found)) == (1, {"store": "wrong"})
    assert "of another program" in found["findings"][0]["words"]
    assert path.read_bytes() == before


@pytest.mark.spec("Q7", "files are for their owner only")
def test_a_doctor_sees_that_others_can_read_the_file(url: str, path: Path) -> None:
    said(url, "migrate")
    assert told(url, "doctor")[0] == 0
    path.chmod(0o644)
    code, found = told(url, "doctor")
    assert (code, levels(found)["files"]) == (1, "wrong")
    assert f"chmod 600 {path}" in [finding["advice"] for finding in found["findings"]]


@pytest.mark.spec("U3", "doctor")
def test_a_doctor_fails_where_a_loss_of_power_could_forget_a_start(url: str) -> None:
    said(url, "migrate")
    code, found = told(f"{url}?synchronous=normal", "doctor")
    assert (code, levels(found)["set-up"]) == (1, "wrong")


@pytest.mark.spec("U3", "doctor")
def test_a_store_that_cannot_be_reached_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a database, and long enough to be looked at", "utf-8")
    code, found = told(f"sqlite:///{tmp_path}/file", "doctor")
    assert (code, levels(found)) == (1, {"store": "wrong"})


@pytest.mark.spec("U3", "doctor")
def test_a_store_for_one_node_that_somebody_has_open_is_not_wrong(tmp_path: Path) -> None:
    configuration = read_configuration({"store": f"lmdb:///{tmp_path}/store"}, {}, tmp_path)

    async def look() -> DoctorReport:
        async with open_store(configuration.store):
            return await examined(configuration)

    found = asyncio.run(look())
    assert found.is_well
    assert [finding.about for finding in found.findings if finding.level is Severity.DOUBTFUL] == ["store"]


# -- migrate ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D7", "on the command line")
def test_migrate_makes_a_store_and_says_from_what_to_what(url: str, path: Path) -> None:
    code, planned = told(url, "migrate", "--dry-run")
    assert (code, planned["before"], planned["is_dry"], path.exists()) == (0, None, True, False)
    code, output = said(url, "migrate")
    assert code == 0
    assert output.splitlines() == [
        f"sqlite:///{path} was made, with schema {planned['after']}:",
        "  0001 first tables",
    ]
    assert told(url, "migrate")[1]["ran"] == []
    assert said(url, "migrate")[1] == f"sqlite:///{path} has schema {planned['after']}; there is nothing to run"
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.spec("D7", "on the command line")
def test_a_newer_schema_is_refused_by_all_who_open_and_seen_by_a_doctor(url: str, path: Path) -> None:
    said(url, "migrate")
    with sqlite3.connect(path) as later:
        later.execute("PRAGMA user_version = 99")
    code, error = said(url, "migrate")
    assert (code, "has schema 99" in error) == (1, True)
    code, found = told(url, "doctor")
    assert (code, levels(found)) == (1, {"schema": "wrong"})
    seen = asyncio.run(schema_at(url))
    assert (seen.found, seen.is_current) == (99, False)


# -- prune -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D8", "on the command line")
def test_prune_counts_first_and_then_removes_what_is_old(url: str, path: Path) -> None:
    app = Itinerary(store=url, name="here")
    job = app.job("etl", HOURLY, overlap="allow")
    job.task(work)
    with app.running() as node:
        for number in range(5):
            app.blocking(node.wait(app.blocking(job.trigger(key=str(number)))))
    with sqlite3.connect(path) as books:  # it was two months ago
        books.execute("UPDATE itinerary_occurrences SET instant = instant - 5184000000000, ended_at = 1")
    assert told(url, "prune", "--keep-for", "30d", "--dry-run") == (
        0,
        {"store": f"sqlite:///{path}", "occurrences": 5, "statistics": 0, "is_dry": True},
    )
    assert said(url, "prune", "--keep-for", "36500d")[1].startswith("removed 0 occurrences")
    assert said(url, "prune")[1].startswith("removed 5 occurrences, and ")
    assert told(url, "prune", "--dry-run")[1]["occurrences"] == 0
    with sqlite3.connect(path) as books:
        rows = books.execute("SELECT entered_by, subject FROM itinerary_entries WHERE kind = 'prune' ORDER BY revision")
        kept = "keep_failed_for 90d, keep_max 100000"
        assert rows.fetchall() == [(local_user(), f"keep_for {days}d, {kept}") for days in (36_500, 30)]
    assert said(url, "prune", "--keep-for", "soon")[0] == 1
    assert said(url, "prune", "--keep-max", "-1")[0] == 2


async def work() -> None: ...
