"""An app for the browser: something happens each second, and for each action there is a job of its own."""

from __future__ import annotations

import asyncio

from itinerary import ExecutionContext, Itinerary, Retry, every
from itinerary.records import RecordBatch

app = Itinerary(name="lively", kill_grace="200ms", shutdown_grace_period="2s", web_local="admin")
DAILY = every("24h")
HOSTILE = "<script>alert('job')</script>/../&"


@app.job(every("1s"))
async def tick() -> str:
    return "tock"


@app.job(every("5s"), retry=Retry(max_retries=1, retry_interval="1s"))
def failing() -> None:
    print("<script>alert('output')</script>")
    raise RuntimeError("<img src=x onerror=alert('error')>")


@app.job(DAILY)
async def endless() -> None:
    await asyncio.sleep(3_600)


def work() -> None: ...


for what in ("pause", "resume", "stop", "start", "skip", "remove", "trigger", "backfill", "dialog", "plain"):
    app.job(f"for {what}", DAILY).task(work)
app.job(HOSTILE, DAILY).task(work)

desk = app.records("orders", schedule_interval="2s", startup_delay="0s")


@app.job(every("1s"))
async def shop(ctx: ExecutionContext) -> None:
    await desk.append("RecordCreated", record=f"O-{ctx.scheduled_at:%H%M%S}", key=f"{ctx.task_run_id}")


@desk.handler
async def settle(batch: RecordBatch) -> None:
    for order in batch:
        await desk.append("RecordCompleted", record=order.id, final_status="<b>paid</b>", key=f"{order.id}/paid")
