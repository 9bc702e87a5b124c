"""`itinerary doctor`: check a store. Every finding is a sentence with advice.

    findings           a finding and its level
    store_checks       the store: reachable, schema, set-up, files, disk, clock
    workload_checks    its content: zone data, watermark, undecided instants, nodes, jobs, waiting runs
    last_hour          failures, orphans, undelivered alerts
    overview           the figures of `itinerary status`

The doctor writes nothing. A store that is missing or has an older schema is not opened, since opening would create or
migrate it. A store with a hundred thousand jobs takes seconds: no query concerns a single job.
"""

from __future__ import annotations

import time

from itinerary.config.configuration import Configuration
from itinerary.errors import ItineraryError, StoreBusy
from itinerary.operations.doctor.findings import CheckResult, DoctorReport, Severity
from itinerary.operations.doctor.last_hour import alerts, failures, orphans, recent_runs
from itinerary.operations.doctor.store_checks import clock, files, schema, set_up
from itinerary.operations.doctor.workload_checks import jobs, nodes, overtime, undecided, waiting, zone_data
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules import ZoneData, packaged_zone_data
from itinerary.stores.urls import open_store, schema_at

__all__ = ["CheckResult", "DoctorReport", "Severity", "examined"]


async def examined(configuration: Configuration, data: ZoneData | None = None) -> DoctorReport:
    """Check a store and return the findings.

    Args:
        configuration: The configuration, with the store.
        data: The zone data of this machine; None: the data of the package.
    """
    store = open_store(configuration.store)
    found: list[CheckResult] = []
    try:
        found += schema(store.url, await schema_at(configuration.store))
        if all(finding.level is Severity.WELL for finding in found):
            found += files(store.files, store.file_mode)
            async with store:
                found += set_up(await store.warnings())
                found.append(await clock(store, time.time_ns))
                snapshot = await StoreSnapshot.of(store)
                found += zone_data(snapshot, packaged_zone_data() if data is None else data)
                found += await nodes(snapshot)
                found += await jobs(snapshot)
                found += await undecided(snapshot)
                found += await waiting(snapshot)
                found += await overtime(snapshot)
                runs = await recent_runs(snapshot)
                found += failures(snapshot, runs)
                found += orphans(snapshot, runs)
                found += await alerts(snapshot, configuration)
    except StoreBusy as error:
        found.append(
            CheckResult("store", Severity.DOUBTFUL, str(error), "nothing more could be looked at; try again then")
        )
    except ItineraryError as error:
        found.append(
            CheckResult("store", Severity.WRONG, str(error), "see that it is there, and that this user may use it")
        )
    is_well = all(finding.level is not Severity.WRONG for finding in found)
    return DoctorReport(store.url, tuple(found), is_well)
