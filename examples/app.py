"""A small app that keeps itself busy: run it with `itinerary up examples/app.py` or `make run`, and open its dashboard.

heartbeat     every 2 seconds, a coroutine
weather       every 5 seconds, fails now and then and is tried again
backup        every 10 seconds, two commands and a function, one after the other
reports       every 15 seconds, three functions at the same time
slow          every 3 seconds though it takes 5: each second one is skipped, and says for whom
invoices      at the full minute; what was missed while nothing ran is made up for in one run
parcels       every 20 seconds, when the backup of the same time has gone well; until then it waits
orders        a desk: somebody orders every 4 seconds, orders are picked up in batches, some are called back

Chance decides how long things take and how often they are tried, never how they end: `itinerary simulate` can foresee
this app, occurrence by occurrence. For one that nobody can foresee, see `examples/trouble.py`.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta

from itinerary import ExecutionContext, Itinerary, OccurrenceReport, Retry, cron, every
from itinerary.records import RecordBatch

app = Itinerary()


@app.job(every("2s"))
async def heartbeat(ctx: ExecutionContext) -> dict[str, str]:
    """Say that we are there."""
    await asyncio.sleep(0.05)
    return {"last": str(ctx.last_run_at)}


@app.job(every("5s"), retry=Retry(max_retries=3, retry_interval="500ms", backoff_factor=2.0))
async def weather(ctx: ExecutionContext) -> int:
    """Ask somebody who does not always answer."""
    if ctx.attempt == 1 and random.random() < 0.5:  # noqa: S311 - the weather is not a secret
        raise ConnectionError(f"the weather station did not answer, attempt {ctx.attempt}")
    return 21


backup = app.job("backup", every("10s"), execution_timeout="8s")
backup.shell("dump", ["sh", "-c", "head -c 100000 /dev/zero | wc -c"])
backup.shell("compress", ["gzip", "--version"])


@backup.task(failure="continue")
def verify(ctx: ExecutionContext) -> str:
    """A plain function, which runs in a thread."""
    return f"backup of {ctx.scheduled_at:%H:%M:%S} is there"


reports = app.job("reports", every("15s"), mode="parallel")


@reports.task
def sales() -> None:
    """One of three that run at the same time."""
    time.sleep(0.3)


@reports.task
def stock() -> None:
    """The second."""
    time.sleep(0.2)


@reports.task(executor="process")
def forecast() -> int:
    """The third computes, so it has a process of its own."""
    return sum(number * number for number in range(200_000))


@reports.on_complete
def notify(report: OccurrenceReport) -> None:
    """Be told what came of it."""


@app.job(every("3s"), overlap="skip")
async def slow() -> None:
    """Takes longer than there is time for."""
    await asyncio.sleep(5)


@app.job(cron("* * * * *"), recovery="compressed")
def invoices(ctx: ExecutionContext) -> int:
    """Every instant that this run answers for."""
    return len(ctx.window)


parcels = app.job("parcels", every("20s"))
parcels.requires(job="backup", on_unmet="wait", every="2s", deadline="18s")


@parcels.task
async def pack(ctx: ExecutionContext) -> str:
    """Runs once the backup has."""
    ctx.log.info("packing", scheduled=ctx.scheduled_at)
    await asyncio.sleep(random.uniform(1, 4))  # noqa: S311 - no secret
    return "packed"


@parcels.task
async def ship() -> None:
    """And this after it."""
    await asyncio.sleep(random.uniform(0.5, 2))  # noqa: S311 - no secret


orders = app.records("orders", schedule_interval="5s", callback_check_interval="5s", startup_delay="1s")


@app.job(every("4s"))
async def shop(ctx: ExecutionContext) -> str:
    """Somebody orders. The key is that of the run: tried again, it is the same order."""
    order = f"O-{ctx.scheduled_at:%H%M%S}"
    bill = {"amount": random.randint(5, 500)}  # noqa: S311 - no secret
    await orders.append("RecordCreated", record=order, data=bill, key=f"{ctx.task_run_id}")
    return order


@orders.handler
async def settle(batch: RecordBatch) -> None:
    """One batch: small orders are done, those who ordered much are called back."""
    for order in batch:
        if order.data["amount"] < 300 or order.is_retry:
            await orders.append("RecordCompleted", record=order.id, final_status="paid", key=f"{order.id}/paid")
        else:
            later = datetime.now(UTC) + timedelta(seconds=20)
            await orders.append("CallbackScheduled", record=order.id, target_time=later, key=f"{order.id}/call")


if __name__ == "__main__":
    raise SystemExit(app.run())
