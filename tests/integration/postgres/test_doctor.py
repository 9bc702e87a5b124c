"""`itinerary doctor`, `migrate` and `jobs` on PostgreSQL (U3, D7; protocol rule 27)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary, every
from itinerary.cli.main import app as command_line
from itinerary.stores.migrations import migrations_of
from itinerary.stores.urls import schema_at
from tests.integration.postgres.sessions import ask

NEWEST = len(migrations_of("itinerary.stores.postgres.migrations"))


def told(url: str, *words: str) -> tuple[int, Any]:
    result = CliRunner().invoke(command_line, [*words, "--store", url, "--json"])
    return result.exit_code, msgspec.json.decode(result.stdout)


@pytest.mark.spec("D7", "on the command line")
@pytest.mark.spec("U3", "doctor")
def test_who_looks_makes_no_schema_and_migrate_does(url: str) -> None:
    assert asyncio.run(schema_at(url)).found is None
    code, found = told(url, "doctor")
    assert (code, [finding["about"] for finding in found["findings"]]) == (1, ["store"])
    assert told(url, "migrate", "--dry-run")[1]["before"] is None
    assert ask(url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'itinerary'") == [(0,)]
    assert told(url, "migrate")[1]["after"] == NEWEST
    seen = asyncio.run(schema_at(url))
    assert (seen.found, seen.is_current) == (NEWEST, True)
    ask(url, "INSERT INTO itinerary.migrations (number, title) VALUES (99, 'of the future')")
    code, found = told(url, "doctor")
    assert (code, found["findings"][0]["words"]) == (
        1,
        f"it has schema 99, and this program knows schemas up to {NEWEST}",
    )


@pytest.mark.spec("U3", "doctor")
def test_a_server_that_forgets_commits_is_wrong(url: str) -> None:
    app = Itinerary(store=url, name="here")
    app.job("etl", every("1h")).task(len)
    with app.running():
        assert told(url, "doctor")[0] == 0
        (job,) = told(url, "jobs")[1]["jobs"]
        assert (job["job"], job["state"]) == ("etl", "active")
        database = ask(url, "SELECT current_database()")[0][0]
        ask(url, f"ALTER DATABASE {database} SET synchronous_commit = off")
        code, found = told(url, "doctor")
    wrong = [finding for finding in found["findings"] if finding["level"] == "wrong"]
    assert (code, [finding["about"] for finding in wrong]) == (1, ["set-up"])
    assert wrong[0]["words"].startswith("synchronous_commit is off")
    assert "ALTER ROLE" in wrong[0]["advice"]
