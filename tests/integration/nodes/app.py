"""The app of the storm: very many small jobs, which write down that they ran where no store of ours has a say.

JOBS        how many
EVIDENCE    a directory: each process appends to a file of its own there
SETTINGS    of the node, as JSON
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Final

from itinerary import ExecutionContext, Itinerary, every
from tests.integration.nodes.evidence import Notebook

PERIODS: Final = (3, 4, 5, 6, 7)
"""Seconds between two instants of a job."""
SLOW: Final = 10
"""One job in so many takes its time, so that nodes die in the middle of work."""

app = Itinerary(**json.loads(os.environ["SETTINGS"]))
notebook = Notebook(Path(os.environ["EVIDENCE"]))


async def quick(ctx: ExecutionContext) -> None:
    """Nothing, but on record."""
    notebook.begin(ctx.job, ctx.scheduled_at, ctx.attempt, ctx.node)
    notebook.end(ctx.job, ctx.scheduled_at, ctx.attempt, ctx.node)


async def slow(ctx: ExecutionContext) -> None:
    """The same, and it takes a while."""
    notebook.begin(ctx.job, ctx.scheduled_at, ctx.attempt, ctx.node)
    await asyncio.sleep(1.5)
    notebook.end(ctx.job, ctx.scheduled_at, ctx.attempt, ctx.node)


for number in range(int(os.environ["JOBS"])):
    job = app.job(f"job{number:05}", every(f"{PERIODS[number % len(PERIODS)]}s"))
    job.task(slow if number % SLOW == 0 else quick)
