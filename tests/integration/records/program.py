"""A program with a desk that gets killed: what its handlers have had is in a file, a line for each record. It takes a
store, the file, and, if not the usual ones, a name, how long a lease lasts, and how often a heart beats."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta

from itinerary import Itinerary
from itinerary.records import Record, RecordBatch

url, path, *settings = sys.argv[1:]
name, lease, heartbeat = settings or ("mortal", "1s", "5s")
seen = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

app = Itinerary(store=url, name=name, shutdown_grace_period="5s", node_heartbeat_interval=heartbeat)
desk = app.records(
    "folio",
    partition_by="hotel",
    enable_early_morning_skip=False,
    startup_delay=0,
    schedule_interval="1s",
    callback_check_interval="1s",
    verification_check_interval="1s",
    lease_for=lease,
    batch_size_max=5,
)


@desk.handler
def work(batch: RecordBatch) -> None:
    for record in batch:
        os.write(seen, f"{record.id} {record.times_queued} {batch.attempt}\n".encode())


@desk.verification("email")
async def check_mail(record: Record) -> str:
    os.write(seen, f"{record.id} verified 0\n".encode())
    return (datetime.now(UTC) + timedelta(days=1)).isoformat()


sys.exit(app.run(lambda _: print("ready", flush=True)))
