"""A small app that keeps itself busy: run it with `itinerary up examples/app.py`, or `make run`.

heartbeat     every 2 seconds, a coroutine
weather       every 5 seconds, fails now and then and is tried again
backup        every 10 seconds, two commands and a function, one after the other
reports       every 15 seconds, three functions at the same time
slow          every 3 seconds though it takes 5: each second one is skipped, and says for whom
invoices      at the full minute; what was missed while nothing ran is made up for in one run
"""

from __future__ import annotations

import asyncio
import random
import time

from itinerary import ExecutionContext, Itinerary, Report, Retry, cron, every

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
def tell(report: Report) -> None:
    """Be told what came of it."""


@app.job(every("3s"), overlap="skip")
async def slow() -> None:
    """Takes longer than there is time for."""
    await asyncio.sleep(5)


@app.job(cron("* * * * *"), recovery="compressed")
def invoices(ctx: ExecutionContext) -> int:
    """Every instant that this run answers for."""
    return len(ctx.window)


if __name__ == "__main__":
    raise SystemExit(app.run())
