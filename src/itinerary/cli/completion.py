"""Names of jobs for shells that complete them.

A shell waits for it at every press of a key, and shows whatever it prints. So it is quick and bounded, says nothing
when something is wrong, and makes no store where there is none.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import typer

from itinerary.cli.run_command import run_command
from itinerary.config.configuration import read_configuration
from itinerary.model.queries import Jobs
from itinerary.model.rows import JobNumber
from itinerary.stores.urls import open_store, schema_at

__all__ = ["complete_job"]

_SECONDS_MAX: Final = 2.0
_JOBS_READ: Final = 20_000
_OFFERED_MAX: Final = 100
_PAGE: Final = 5_000


def complete_job(context: typer.Context, incomplete: str) -> list[str]:
    """The jobs whose names begin like this, as far as they can be had quickly."""
    try:
        url = read_configuration({"store": context.params.get("store")}, os.environ, Path.cwd()).store
        return run_command(_offered(_impatient(url), incomplete))
    except Exception:  # noqa: BLE001 - a shell that completes has nobody to tell an error
        return []


def _impatient(url: str) -> str:
    """A server that is away is not waited for."""
    if not url.startswith("postgres"):
        return url
    return f"{url}{'&' if '?' in url else '?'}patience=0&connect_timeout=2"


async def _offered(url: str, incomplete: str) -> list[str]:
    async with asyncio.timeout(_SECONDS_MAX):
        if not (await schema_at(url)).is_current:
            return []  # nor is a store migrated for this
        async with open_store(url) as store:
            found: list[str] = []
            after, is_more = JobNumber(0), True
            while is_more and after < _JOBS_READ:
                page = await store.read(Jobs(after, _PAGE))
                found += [row.name for row in page if row.name.startswith(incomplete)]
                after, is_more = page[-1].number if page else after, len(page) == _PAGE
            return sorted(found)[:_OFFERED_MAX]
