"""`itinerary doctor`: is everything as it should be? Each answer is a sentence, and what to do about it.

    findings    what a finding is, and how bad
    place       where the store is: reachable, its schema, its set-up, its files, its disk, its clock
    work        what is in it: zone data, the watermark, what is undecided, nodes, jobs, what waits
    recent      the last hour: failures, orphans, alerts that have not arrived

Nothing is written, and a store that is not there or has an older schema is not opened, since opening would make or
migrate it. With a hundred thousand jobs it takes seconds: no job is asked one by one.
"""

from __future__ import annotations

import time

from itinerary.config.configuration import Configuration
from itinerary.errors import ItineraryError, StoreBusy
from itinerary.operations.doctor.findings import Examined, Finding, Level
from itinerary.operations.doctor.last_hour import alerts, failures, orphans, recent_runs
from itinerary.operations.doctor.store_checks import clock, files, schema, set_up
from itinerary.operations.doctor.workload_checks import jobs, nodes, overtime, undecided, waiting, zone_data
from itinerary.read.snapshot import Ground
from itinerary.schedules import ZoneData, packaged_zone_data
from itinerary.stores.urls import open_store, schema_at

__all__ = ["Examined", "Finding", "Level", "examined"]


async def examined(configuration: Configuration, data: ZoneData | None = None) -> Examined:
    """What a doctor finds. `data` is the zone data of this machine, if it is not the package's."""
    store = open_store(configuration.store)
    found: list[Finding] = []
    try:
        found += schema(store.url, await schema_at(configuration.store))
        if all(finding.level is Level.WELL for finding in found):
            found += files(store.files, store.file_mode)
            async with store:
                found += set_up(await store.warnings())
                found.append(await clock(store, time.time_ns))
                ground = await Ground.of(store)
                found += zone_data(ground, packaged_zone_data() if data is None else data)
                found += await nodes(ground)
                found += await jobs(ground)
                found += await undecided(ground)
                found += await waiting(ground)
                found += await overtime(ground)
                runs = await recent_runs(ground)
                found += failures(ground, runs)
                found += orphans(ground, runs)
                found += await alerts(ground, configuration)
    except StoreBusy as error:
        found.append(Finding("store", Level.DOUBTFUL, str(error), "nothing more could be looked at; try again then"))
    except ItineraryError as error:
        found.append(Finding("store", Level.WRONG, str(error), "see that it is there, and that this user may use it"))
    is_well = all(finding.level is not Level.WRONG for finding in found)
    return Examined(store.url, tuple(found), is_well)
