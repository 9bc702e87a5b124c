"""Stores by their URL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from itinerary.model.queries import StoreStatusQuery
from itinerary.stores import open_store
from itinerary.stores.postgres import PostgresEngine


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_the_url_that_a_store_shows_opens_the_same_store(kind: str, tmp_path: Path) -> None:
    async def revision_of(url: str) -> int:
        async with open_store(url) as store:
            await store.join("incarnation", "node", "{}")
            return (await store.read(StoreStatusQuery())).watermark

    first = open_store(f"{kind}:///{tmp_path}/itinerary")
    watermark = asyncio.run(revision_of(f"{kind}:///{tmp_path}/itinerary"))
    assert asyncio.run(revision_of(first.url)) == watermark


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("oracle://db", "unknown kind 'oracle'; allowed: sqlite:///file"),
        ("sqlite://itinerary.db", "write sqlite:///relative/path with three slashes"),
        ("lmdb://", "write lmdb:///relative/path"),
        ("memory:somewhere", "a store in memory has no path"),
        ("sqlite:///a.db?sync=off", "unknown option 'sync'; allowed: synchronous, busy_timeout"),
        ("sqlite:///a.db?busy_timeout=soon", "busy_timeout cannot be 'soon'"),
        ("lmdb:///a?sync=perhaps", "sync cannot be 'perhaps'"),
        ("postgresql://db/jobs?connections=many", "connections cannot be 'many'"),
        ("postgresql://db/jobs?listen=maybe", "listen cannot be 'maybe'"),
        ("", "unknown kind ''"),
    ],
)
def test_a_url_that_cannot_be_is_refused_with_what_is_allowed(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^store ") as error:
        open_store(url)
    assert message in str(error.value)


@pytest.mark.spec("Q7", "secrets")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:secret@db/jobs?connections=x",
        "postgresql://anna:s@secret@db/jobs?connections=x",
        "oracle://anna:secret@db/jobs",
        "postgresql://db/jobs?password=secret&connections=x",
        "postgresql://db/jobs?connections=x&PASSWORD=secret",
    ],
)
def test_a_password_is_never_part_of_the_message(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        open_store(url)
    assert "secret" not in str(error.value)


def test_what_is_ours_in_an_address_does_not_get_as_far_as_the_driver() -> None:
    ours = "schema=other%20one&prepared_statements=off&listen=off&connections=2"
    engine = open_store(f"postgresql:///jobs?sslmode=require&{ours}&host=/run/a%26b&options=-c%20a%3Db")._engine
    assert isinstance(engine, PostgresEngine)
    address = engine._address
    assert (address.schema, address.is_prepared, address.is_listening) == ("other one", False, False)
    assert address.options["sslmode"] == "require"
    assert address.options["options"] == "-c a=b"
    assert address.options["host"] == "/run/a&b"
    assert not {"schema", "prepared_statements", "listen", "connections"} & set(address.options)


def test_the_url_that_a_postgres_store_shows_leads_to_the_same_schema() -> None:
    shown = open_store("postgresql://anna:secret@db:5433/jobs?schema=mine&sslmode=require").url
    assert shown == "postgresql://anna@db:5433/jobs?schema=mine"
    assert open_store(shown).url == shown
