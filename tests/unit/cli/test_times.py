"""Times as people type them, in the zone of the job or of --tz, and runs by the number that lists print (U3)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from itinerary import Itinerary, cron
from itinerary.cli.main import app as command_line
from itinerary.cli.times import instant_of, moment_of
from itinerary.errors import ConfigError
from itinerary.jobs.registration import register
from itinerary.schedules import packaged_zone
from itinerary.stores import open_store
from tests.unit.cli.test_operations import said, told, url, work
from tests.unit.jobs.test_registration import LOG

__all__ = ["url"]

SECOND = 1_000_000
BERLIN = packaged_zone("Europe/Berlin")
NOW = int(datetime(2026, 3, 28, 23, 30, 15, tzinfo=UTC).timestamp()) * SECOND
"""In Berlin it is half past midnight on the 29th, the night in which two o'clock is skipped."""


@pytest.mark.spec("U3", "times as people type them")
@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01T05:00:00Z", "2026-03-01T05:00:00"),
        ("2026-03-01T05:00:00+05:00", "2026-03-01T00:00:00"),
        ("2026-03-01T05:00", "2026-03-01T04:00:00"),
        ("2026-03-01 05:00:30", "2026-03-01T04:00:30"),
        ("2026-03-01", "2026-02-28T23:00:00"),
        ("17:33", "2026-03-29T15:33:00"),
        ("7:05:09", "2026-03-29T05:05:09"),
        ("yesterday 02:00", "2026-03-28T01:00:00"),
        ("Yesterday", "2026-03-27T23:00:00"),
        ("today 00:00", "2026-03-28T23:00:00"),
        ("tomorrow  06:30", "2026-03-30T04:30:00"),
        ("2h ago", "2026-03-28T21:30:15"),
        ("1d 2h ago", "2026-03-27T21:30:15"),
        ("in 90m", "2026-03-29T01:00:15"),
        ("now", "2026-03-28T23:30:15"),
        ("today 02:30", "2026-03-29T01:00:00"),
    ],
)
def test_a_time_is_read_by_the_clock_of_the_zone(text: str, instant: str) -> None:
    expected = int(datetime.fromisoformat(f"{instant}+00:00").timestamp()) * SECOND
    assert instant_of("--from", text, now=NOW, zone=BERLIN) == expected


@pytest.mark.spec("U3", "times as people type them")
@pytest.mark.parametrize("text", ["", "soon", "25:00", "12:61", "yesterday 2", "2 ago", "in", "2026-13-01", "x" * 99])
def test_what_is_not_a_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--from .*: this is not a time; write 2026-03-01T05:00, .*, 17:33, "):
        moment_of("--from", text, now=NOW, zone=BERLIN)


@pytest.mark.parametrize("text", ["60000d ago", "1492-01-01", "2300-01-01T00:00"])
def test_a_time_outside_the_supported_years_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"^--from {text}: lies outside the supported years 1900 to 2199"):
        moment_of("--from", text, now=NOW, zone=BERLIN)


@pytest.fixture
def tokyo(tmp_path: Path) -> str:
    """A store with a job of Tokyo, due at each full hour."""
    place = f"sqlite:///{tmp_path}/tokyo.db"
    app = Itinerary(store=place)
    app.job("etl", cron("0 * * * *", tz="Asia/Tokyo")).task(work)

    async def declare() -> None:
        async with open_store(place) as store:
            await register(store, app.declared, by="anna", log=LOG)

    asyncio.run(declare())
    return place


@pytest.mark.spec("U3", "times as people type them")
def test_commands_read_times_in_the_zone_of_the_job_unless_another_is_named(tokyo: str) -> None:
    far = datetime.now(UTC).year + 1
    skipped = told(tokyo, "skip", "etl", f"{far}-03-01T05:00")
    assert skipped["instant"] == f"{far}-02-28T20:00:00Z"
    skipped = told(tokyo, "skip", "etl", f"{far}-03-01 05:00", "--tz", "UTC")
    assert skipped["instant"] == f"{far}-03-01T05:00:00Z"
    paused = told(tokyo, "pause", "etl", "--until", f"{far}-03-01")
    assert paused["until"] == f"{far}-02-{28 if far % 4 else 29}T15:00:00Z"
    filled = told(tokyo, "backfill", "etl", "--from", "yesterday 02:00", "--to", "yesterday 04:00", "--dry-run")
    assert [instant[11:] for instant in filled["instants"]] == ["17:00:00Z", "18:00:00Z"]
    explained = told(tokyo, "explain", "etl", f"{far}-03-01T09:00")
    assert explained["zone"] == "Asia/Tokyo"
    assert explained["instant"] == f"{far}-03-01T00:00:00Z"
    assert told(tokyo, "explain", "etl", f"{far}-03-01T09:00", "--tz", "UTC")["instant"] == f"{far}-03-01T09:00:00Z"
    assert said(tokyo, "audit", "--since", "2h ago", "--until", "now", "--tz", "Asia/Tokyo")[0] in (0, 4)
    code, output = said(tokyo, "skip", "etl", "17:00", "--tz", "Asia/Tokio")
    assert (code, output.split(";")[0]) == (1, "itinerary: --tz: time zone 'Asia/Tokio' is unknown")


@pytest.mark.spec("U3", "runs by their number")
def test_show_cancel_and_replay_take_the_number_that_lists_print(url: str) -> None:
    said(url, "trigger", "etl", "--key", "once")
    (run,) = told(url, "history", "etl")["active"]
    number = str(run["number"])
    assert number in said(url, "history", "etl")[1]
    assert told(url, "show", number)["run"]["id"] == run["id"]
    assert told(url, "show", f"#{number}")["run"]["id"] == run["id"]
    assert told(url, "cancel", number)["cancelled"] is True
    assert told(url, "replay", number)["job"] == "etl"
    assert said(url, "show", "4711") == (
        1,
        "itinerary: there is no occurrence with the number 4711 in the store, or it is no longer kept",
    )


@pytest.mark.spec("U3", "unknown commands")
@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("run", " Did you mean 'up' or 'trigger'?"),
        ("prun", ""),
        ("remove", ""),
        ("bakfill", " Did you mean 'backfill'?"),
        ("xyz", ""),
    ],
)
def test_an_unknown_command_suggests_none_that_deletes(word: str, hint: str) -> None:
    result = CliRunner().invoke(command_line, [word])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: No such command {word!r}.{hint}"


@pytest.mark.spec("R4", "bounded concurrency")
def test_a_backfill_says_that_max_active_has_no_effect_unless_runs_may_overlap(url: str) -> None:
    until = datetime.now(UTC).replace(microsecond=0)
    window = ("--from", (until - timedelta(minutes=1)).isoformat(), "--to", until.isoformat(), "--dry-run")
    words = ["backfill", "etl", *window, "--store", url]
    assert CliRunner().invoke(command_line, words).stderr == ""
    warned = CliRunner().invoke(command_line, [*words, "--max-active", "4"]).stderr
    assert " ".join(warned.split()) == (
        "warning: max_active 4 has no effect: job 'etl' lets no two runs overlap, so its runs start one after another; "
        'overlap = "allow" on the job lets them run at once'
    )
