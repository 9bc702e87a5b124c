"""What the errors of a PostgreSQL server mean, and what one is told of them."""

from __future__ import annotations

import psycopg
import pytest

from itinerary.errors import SchemaError, StoreBusy, StoreError, StoreFull, StoreUnavailable, UnwritableError
from itinerary.stores.postgres import checks
from itinerary.stores.postgres.failures import as_store_error, meaning


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", StoreUnavailable),  # the connection failed
        ("0A000", StoreUnavailable),  # a kept plan does not fit any more
        ("22021", UnwritableError),  # a NUL
        ("22003", UnwritableError),  # a number out of range
        ("23502", UnwritableError),  # nothing where there has to be something
        ("25006", StoreUnavailable),  # it has become a standby
        ("26000", StoreUnavailable),  # a prepared statement is not there
        ("40001", StoreBusy),
        ("40P01", StoreBusy),  # a deadlock
        ("42501", StoreError),  # no right to do that
        ("42P01", SchemaError),  # a table is not there
        ("53100", StoreFull),
        ("53300", StoreUnavailable),  # too many connections
        ("54000", UnwritableError),  # too long for an index
        ("55P03", StoreBusy),  # a lock took too long
        ("57P01", StoreUnavailable),  # the server is being shut down
        ("57P03", StoreUnavailable),  # it is starting
        ("XX000", StoreError),
    ],
)
def test_an_error_of_the_server_becomes_one_of_ours(state: str, kind: type[StoreError]) -> None:
    error = psycopg.errors.lookup(state)("what happened,\nin two lines")
    told = as_store_error(error, "postgresql://db/jobs", 60)
    assert type(told) is kind
    assert "postgresql://db/jobs" in str(told)
    assert "what happened, in two lines" in str(told)
    assert meaning(error).is_passing is isinstance(told, StoreUnavailable)


def test_an_error_without_a_code_is_of_the_connection_or_of_a_value() -> None:
    assert type(as_store_error(psycopg.OperationalError("gone"), "db", 60)) is StoreUnavailable
    assert type(as_store_error(psycopg.InterfaceError("closed"), "db", 60)) is StoreUnavailable
    assert type(as_store_error(psycopg.DataError("a NUL"), "db", 60)) is UnwritableError
    assert type(as_store_error(psycopg.ProgrammingError("what?"), "db", 60)) is StoreError


def test_a_server_that_forgets_is_warned_about() -> None:
    good = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on", "server_encoding": "UTF8"}
    assert checks.warnings(good) == []
    assert checks.warnings(good | {"synchronous_commit": "local"}) == []
    bad = {"synchronous_commit": "off", "fsync": "off", "full_page_writes": "off", "server_encoding": "LATIN1"}
    assert [warning.partition(" is ")[0] for warning in checks.warnings(bad)] == [
        "synchronous_commit",
        "fsync",
        "full_page_writes",
        "the database's encoding",
    ]
