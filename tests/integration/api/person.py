"""A process in which somebody updates a job: `python person.py URL EVERY FROM_VERSION`, when told to go."""

from __future__ import annotations

import asyncio
import sys

from itinerary import every
from itinerary.errors import StaleVersion
from itinerary.executors import Registry
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model.overrides import NOTHING
from itinerary.model.policies import UpdatePolicy
from itinerary.operations.job_updates import DefinitionChange, Updates
from itinerary.read.timeline_view import StoreView
from itinerary.stores import open_store


async def main(url: str, interval: str, from_version: int) -> str:
    async with open_store(url) as store:
        rules = DeclarationContext(Registry(), NOTHING, {})
        updates = Updates(store, await StoreView.of(store), interval, rules, lambda: UpdatePolicy.IMMEDIATE)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            diff = await updates.update("etl", DefinitionChange(schedule=every(interval), from_version=from_version))
        except StaleVersion as error:
            return f"refused: {error}"
        return f"made: {diff.version}"


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))), flush=True)
