"""The folio desk of three hotels in three time zones: run it with `itinerary up examples/folio.py`.

A folio is a guest's bill. Every few seconds somebody checks out of one of the hotels, and a folio is created. The desk
picks folios up in batches, each hotel by its own clock and with its own quiet hours, and does one of three things:

paid          the folio is completed
disputed      the guest is called back in ten seconds; the second time they pay
by mail       the bill is sent, and five seconds later somebody looks whether it was read

Watch it beside the node: `itinerary records`, `itinerary records show folio`, `itinerary records follow folio`. Stop it
with Ctrl-C, or with kill -9, and start it again: every folio is where it was.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from itinerary import ExecutionContext, Itinerary, every
from itinerary.records import Record, RecordBatch

ZONES = {"lisbon": "Europe/Lisbon", "tokyo": "Asia/Tokyo", "honolulu": "Pacific/Honolulu"}

app = Itinerary()
desk = app.records(
    "folio",
    partition_by="hotel",
    timezone=ZONES.__getitem__,
    schedule_interval="5s",
    callback_check_interval="2s",
    verification_check_interval="2s",
    startup_delay="1s",
    early_morning_start_hour=23,  # past midnight: from eleven at night to six in the morning nobody is called
    early_morning_end_hour=6,
)


@app.job(every("2s"))
async def checkouts(ctx: ExecutionContext) -> str:
    """Somebody checks out. The key is that of the occurrence: tried again, it is the same folio."""
    hotel = random.choice(list(ZONES))  # noqa: S311 - no secret
    record = f"F-{ctx.scheduled_at:%H%M%S}"
    bill = {"room": random.randint(100, 999), "amount": random.randint(80, 900)}  # noqa: S311 - no secret
    await desk.append("RecordCreated", record=record, hotel=hotel, data=bill, key=f"{ctx.task_run_id}")
    return f"{record} in {hotel}"


@desk.handler
async def settle(batch: RecordBatch) -> None:
    """One batch. Returning acknowledges it; if this raised, or were killed, the batch would come back."""
    for record in batch:
        await settle_one(record, f"{batch.id}/{record.id}")


async def settle_one(record: Record, key: str) -> None:
    """Decide what becomes of a folio. Each event has a key: a batch that comes back says nothing twice."""
    now = datetime.now(UTC)
    if record.data["amount"] < 300 or record.is_retry:
        await desk.append("RecordCompleted", record=record.id, final_status="paid", key=f"{key}/paid")
    elif record.data["amount"] < 600:
        later = now + timedelta(seconds=10)
        await desk.append("CallbackScheduled", record=record.id, target_time=later, key=f"{key}/disputed")
    else:
        later = now + timedelta(seconds=5)
        await desk.append(
            "VerificationScheduled", record=record.id, check_time=later, verification="email", key=f"{key}/mail"
        )


@desk.verification("email")
def was_it_read(record: Record) -> str:
    """A plain function runs in a thread. What it returns is appended to the log."""
    return "read" if record.data["room"] % 2 else "not read yet"


@desk.on_alert
def notify(message: str) -> None:
    """The event store was away for a minute, or is back."""
    print("ALERT", message)
