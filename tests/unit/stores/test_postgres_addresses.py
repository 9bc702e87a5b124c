"""Addresses of PostgreSQL stores: what is shown of them, and what is refused."""

from __future__ import annotations

import pytest

from itinerary.errors import ConfigError, StoreError
from itinerary.stores.postgres import PostgresEngine
from itinerary.stores.postgres.connections import parse


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:geheim@db.example:5433/jobs", "postgresql://me@db.example:5433/jobs?schema=itinerary"),
        ("postgres://me@a,b/jobs?password=geheim", "postgresql://me@a,b/jobs?schema=itinerary"),
        ("postgresql://a:1,b:2/jobs", "postgresql://a:1,b:2/jobs?schema=itinerary"),
        ("host=a,b port=5 password=geheim", "postgresql://a:5,b:5/?schema=itinerary"),
        ("host=db user=me password=geheim dbname=jobs", "postgresql://me@db/jobs?schema=itinerary"),
        ("postgresql:///jobs?host=/run/pg&passfile=/geheim", "postgresql://%2Frun%2Fpg/jobs?schema=itinerary"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert parse(url, schema="itinerary").shown == shown


def test_what_an_address_says_counts_more_than_the_defaults() -> None:
    options = parse("postgresql://db/jobs?connect_timeout=3&application_name=mine", schema="itinerary").options
    assert options["connect_timeout"] == "3"
    assert options["application_name"] == "mine"
    assert options["keepalives"] == 1


@pytest.mark.parametrize(
    "url", ["postgresql://me:gehe%im@db/jobs", "password=geheim host", "postgresql://me:geheim@db/jobs?gibberish=1"]
)
def test_an_address_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse(url, schema="itinerary")
    assert "gehe" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("schema", ["", "pg_mine", "ü" * 32])
def test_a_schema_that_there_cannot_be_is_refused(schema: str) -> None:
    with pytest.raises(StoreError, match="expected 1 to 63 bytes"):
        parse("postgresql://db/jobs", schema=schema)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ConfigError, match="connections = 0: expected 1 to 100"):
        PostgresEngine("postgresql://db/jobs", connections=0)
    with pytest.raises(ConfigError, match="lock_timeout"):
        PostgresEngine("postgresql://db/jobs", lock_timeout=0)
    with pytest.raises(ConfigError, match=r"idle_timeout = -1: expected seconds above 0"):
        PostgresEngine("postgresql://db/jobs", idle_timeout=-1)
    with pytest.raises(ConfigError, match="patience"):
        PostgresEngine("postgresql://db/jobs", patience=-1)
