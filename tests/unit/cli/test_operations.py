"""Changing jobs and asking for runs from the command line, on a store on which no node runs (U3, S11, S12, R4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary
from itinerary.cli.main import app as command_line
from itinerary.jobs.registration import register
from itinerary.model.queries import ActiveQuery, EntriesQuery
from itinerary.model.rows import EntryKind, EntryRow
from itinerary.model.states import OccurrenceState
from itinerary.stores import open_store
from tests.hours import HOUR, HOURLY, LAST_HOUR
from tests.unit.jobs.test_registration import LOG

Tell = Callable[..., Any]


async def work() -> None: ...


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a job in it."""
    place = f"sqlite:///{tmp_path}/itinerary.db"
    app = Itinerary(store=place)
    app.job("etl", HOURLY).task(work)

    async def declare() -> None:
        async with open_store(place) as store:
            await register(store, app._declared, by="anna", log=LOG)

    asyncio.run(declare())
    return place


def said(url: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, [*words, "--store", url])
    return result.exit_code, (result.stdout or result.stderr).strip()


def told(url: str, *words: str) -> dict[str, Any]:
    code, output = said(url, *words, "--json")
    assert code == 0, output
    found: dict[str, Any] = msgspec.json.decode(output)
    return found


def entries(url: str) -> list[EntryRow]:
    async def read() -> list[EntryRow]:
        async with open_store(url) as store:
            return list(await store.read(EntriesQuery(0)))

    return asyncio.run(read())


@pytest.mark.spec("U3", "pause, resume, skip")
@pytest.mark.spec("S12", "who, when and why")
def test_a_pause_without_a_node_is_an_entry_with_who_when_and_why(url: str) -> None:
    until = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    assert said(url, "pause", "etl", "--reason", "migration") == (0, "paused etl")
    shown = f"{until:%Y-%m-%dT%H:%M:%SZ}"
    assert said(url, "pause", "etl", "--until", until.isoformat()) == (0, f"paused etl until {shown}")
    assert said(url, "resume", "etl", "--reason", "done") == (0, "resumed etl")
    assert [(entry.kind, entry.reason) for entry in entries(url)[1:]] == [
        (EntryKind.PAUSE, "migration"),
        (EntryKind.PAUSE, None),
        (EntryKind.RESUME, "done"),
    ]
    assert all(entry.entered_by and entry.entered_at for entry in entries(url))
    assert told(url, "pause", "etl", "--reason", "again")["reason"] == "again"


@pytest.mark.spec("S11", "a pause holds what has not started")
def test_a_pause_says_how_many_runs_it_holds_and_resume_releases_or_skips_them(url: str) -> None:
    for key in ("first", "second"):
        said(url, "trigger", "etl", "--key", key)
    assert said(url, "pause", "etl") == (0, "paused etl, 2 runs that had not started held")
    listed = told(url, "jobs", "etl")["jobs"][0]
    assert listed["why"].endswith("; 2 that had not started are held")
    active = told(url, "history", "etl")["active"]
    assert [run["reason"].startswith("held: its job is paused by ") for run in active] == [True, True]
    assert said(url, "resume", "etl") == (0, "resumed etl, 2 runs that had not started released")
    assert told(url, "pause", "etl")["held"] == 2
    assert said(url, "resume", "etl", "--skip-backlog") == (0, "resumed etl, 2 runs that had not started skipped")
    assert [run["state"] for run in told(url, "history", "etl")["runs"]] == ["skipped", "skipped"]
    assert told(url, "resume", "etl")["released"] == 0


@pytest.mark.spec("S11", "pause and resume")
def test_a_pause_that_was_entered_while_no_node_ran_holds_when_one_comes(url: str) -> None:
    said(url, "pause", "etl", "--reason", "migration")
    app = Itinerary(store=url, name="here")
    with app.running():
        assert app["etl"].is_paused
        assert app["etl"].next_run() == LAST_HOUR + HOUR, "its next instant"
    said(url, "resume", "etl")
    with app.running():
        assert app["etl"].is_enabled


@pytest.mark.spec("U3", "pause, resume, skip")
def test_one_occurrence_is_skipped_by_its_instant(url: str) -> None:
    following = LAST_HOUR + 2 * HOUR
    assert said(url, "skip", "etl", following.isoformat())[0] == 0
    assert entries(url)[-1].kind is EntryKind.SKIP
    code, error = said(url, "skip", "etl", (following + timedelta(minutes=1)).isoformat())
    assert (code, "has no occurrence at" in error) == (1, True)


@pytest.mark.spec("U3", "trigger, cancel")
@pytest.mark.spec("D1", "a trigger's key")
def test_a_trigger_waits_for_a_node_and_can_be_cancelled(url: str) -> None:
    first = told(url, "trigger", "etl", "--key", "request-7", "--reason", "by hand")
    assert told(url, "trigger", "etl", "--key", "request-7")["id"] == first["id"]
    second = told(url, "trigger", "etl")
    assert second["id"] != first["id"]
    assert said(url, "cancel", second["id"], "--reason", "not needed") == (0, f"asked {second['id']} to end")

    async def active() -> list[OccurrenceState]:
        async with open_store(url) as store:
            return [row.status for row in await store.read(ActiveQuery())]

    assert asyncio.run(active()) == [OccurrenceState.PRERUN]
    app = Itinerary(store=url, name="here")
    app.job("etl", HOURLY).task(work)
    with app.running() as node:
        assert app.blocking(node.wait(first["id"])).outcome is OccurrenceState.COMPLETED
        assert app.blocking(node.wait(second["id"])).outcome is OccurrenceState.CANCELLED
    code, output = said(url, "cancel", first["id"])
    assert (code, output) == (1, f"{first['id']} has ended already")
    again = told(url, "replay", first["id"], "--task", "work", "--reason", "API fixed")
    assert again["kind"] == "replay"
    with app.running() as node:
        assert app.blocking(node.wait(again["id"])).replay_of is not None


@pytest.mark.spec("U3", "adjust")
@pytest.mark.spec("L6", "update")
def test_a_run_that_waits_is_adjusted_and_shows_by_whom_and_why(url: str) -> None:
    waiting = told(url, "trigger", "etl", "--reason", "by hand")
    words = ("adjust", waiting["id"], "priority=9", "retry.max_retries=3", "--reason", "month end")
    assert said(url, *words) == (0, f"adjusted {waiting['id']}: retry.max_retries=3, priority=9")
    done = told(url, "adjust", waiting["id"], "task_timeout=7s")
    assert done["values"] == {"retry.max_retries": 3, "task_timeout": "7s", "priority": 9}
    _, shown = said(url, "show", waiting["id"])
    assert "retry.max_retries=3, priority=9, by " in shown
    assert ": month end" in shown
    first, second = told(url, "show", waiting["id"])["adjusted"]
    assert (first["values"], first["reason"]) == ({"retry.max_retries": 3, "priority": 9}, "month end")
    assert second["values"] == {"task_timeout": "7s"}
    for values, why in (
        ("prioritty=9", "'prioritty' cannot be adjusted; did you mean 'priority'"),
        ("priority", "'priority' sets nothing; write key=value"),
        ("priority=5000", "priority: "),
    ):
        code, error = said(url, "adjust", waiting["id"], values)
        assert (code, why in error) == (1, True), error
    app = Itinerary(store=url, name="here")
    app.job("etl", HOURLY).task(work)
    with app.running() as node:
        app.blocking(node.wait(waiting["id"]))
    settings = {one["key"]: one["value"] for one in told(url, "show", waiting["id"])["configuration"]}
    assert (settings["priority"], settings["retry.max_retries"], settings["task_timeout"]) == ("9", "3", "7s")
    code, error = said(url, "adjust", waiting["id"], "priority=1")
    assert (code, "has ended already, completed; replay it" in error) == (1, True)


@pytest.mark.spec("R4", "dry run")
def test_a_dry_backfill_says_what_would_run_and_writes_nothing(url: str) -> None:
    end = LAST_HOUR - HOUR
    start = end - 3 * HOUR
    code, output = said(url, "backfill", "etl", "--from", start.isoformat(), "--to", end.isoformat(), "--dry-run")
    assert (code, output.splitlines()[0]) == (0, "would run 3 of 3 instants of etl")
    assert [line.strip() for line in output.splitlines()[1:]] == [(start + n * HOUR).isoformat() for n in range(3)]
    found = told(url, "backfill", "etl", "--from", start.isoformat(), "--to", end.isoformat(), "--dry-run")
    assert (len(found["instants"]), found["created"], found["is_dry"]) == (3, 0, True)


@pytest.mark.spec("U3", "exit codes")
def test_what_cannot_be_done_is_told_in_a_line_with_exit_code_1(url: str) -> None:
    for words, why in (
        (("pause", "elt"), "there is no job 'elt' in the store"),
        (("pause", "etl", "--until", "soon"), "--until soon: this is not a time"),
        (("pause", "etl", "--until", "2020-01-01T00:00:00Z"), "is past"),
        (("cancel", "etl:1"), "has no occurrence at 1 (seconds since the epoch)"),
        (("replay", "nobody:1"), "not the run id of a job"),
        (
            ("backfill", "etl", "--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"),
            "ends before it starts",
        ),
    ):
        code, output = said(url, *words)
        assert (code, why in output, output.count("\n")) == (1, True, 0), output
