"""What the peers' scripts share: wait for a herd, and say what became of it, as JSON. It imports nothing of ours, since
a peer may live in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Sequence

__all__ = ["watch"]

PATIENCE = 300
"""For how many seconds after its instant a herd is watched."""


async def watch(count: int, due_at: int, ran: Sequence[tuple[str, float]], finished: Sequence[float]) -> None:
    """Wait until all of it has finished, or patience has; then print it. `ran` and `finished` grow meanwhile."""
    assert time.time() < due_at - 1, "it took too long to register"
    await asyncio.sleep(due_at - 1 - time.time())
    used = _cpu()
    while len(finished) < count and time.time() < due_at + PATIENCE:  # noqa: ASYNC110 - lists of the peer's events
        await asyncio.sleep(0.05)
    ended_at = max(finished, default=time.time())
    herd = {"count": count, "due_at": due_at, "ran": ran, "finished_at": ended_at, "cpu": _cpu() - used}
    print(json.dumps(herd), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
