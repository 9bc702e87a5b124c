"""Stores by their URL."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from itinerary.model.queries import Standing
from itinerary.stores import open_store


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_the_url_that_a_store_shows_opens_the_same_store(kind: str, tmp_path: Path) -> None:
    async def revision_of(url: str) -> int:
        async with open_store(url) as store:
            await store.join("incarnation", "node", "{}")
            return (await store.read(Standing())).watermark

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


def test_parameters_for_the_driver_keep_their_escapes() -> None:
    store = open_store("postgresql:///jobs?host=/tmp/a%26b&application_name=x%20y&schema=mine")
    assert "a%26b" in store.url or "a&b" not in store.url
    assert "schema=mine" in store.url
