"""Names of jobs for shell completion.

A shell waits for the completion at every key press, and shows all of its output. So the completion is quick and
bounded, stays silent on errors, and creates no store.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import click

from itinerary.cli.run_command import run_command
from itinerary.config.configuration import read_configuration
from itinerary.model.queries import JobsQuery
from itinerary.model.rows import JobNumber
from itinerary.stores.urls import open_store, schema_at

__all__ = ["complete_job"]

_SECONDS_MAX: Final = 2.0
_JOBS_READ: Final = 20_000
_OFFERED_MAX: Final = 100
_PAGE: Final = 5_000


def complete_job(context: click.Context, incomplete: str) -> list[str]:
    """Return the jobs whose names begin with the text, as far as they can be read quickly."""
    try:
        url = read_configuration({"store": context.params.get("store")}, os.environ, Path.cwd()).store
        return run_command(_offered(_impatient(url), incomplete))
    except Exception:  # noqa: BLE001 - shell completion cannot show an error
        return []


def _impatient(url: str) -> str:
    """Return an address that does not wait for an unreachable server."""
    if not url.startswith("postgres"):
        return url
    return f"{url}{'&' if '?' in url else '?'}patience=0&connect_timeout=2"


async def _offered(url: str, incomplete: str) -> list[str]:
    async with asyncio.timeout(_SECONDS_MAX):
        if not (await schema_at(url)).is_current:
            return []  # do not migrate a store for a completion
        async with open_store(url) as store:
            found: list[str] = []
            after, is_more = JobNumber(0), True
            while is_more and after < _JOBS_READ:
                page = await store.read(JobsQuery(after, _PAGE))
                found += [row.name for row in page if row.name.startswith(incomplete)]
                after, is_more = page[-1].number if page else after, len(page) == _PAGE
            return sorted(found)[:_OFFERED_MAX]
