"""Functions that run in pods: the image of the tests has this module on its path."""

from __future__ import annotations

import time

from itinerary import ExecutionContext


def adds(ctx: ExecutionContext) -> dict[str, object]:
    """Succeeds."""
    print("adding in", ctx.job)
    return {"sum": 3, "attempt": ctx.attempt, "task": ctx.task}


def raises(ctx: ExecutionContext) -> None:
    """Fails."""
    raise LookupError(f"nothing there for {ctx.task}")


def waits(ctx: ExecutionContext) -> None:
    """Goes on until it is asked to end."""
    print("waiting", flush=True)
    try:
        time.sleep(1_000)
    finally:
        print("cleaned up", flush=True)
