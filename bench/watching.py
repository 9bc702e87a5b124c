"""What the peers' scripts share: wait for a herd, and say what became of it, as JSON. It imports nothing of ours, since
a peer may live in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections.abc import Sequence

__all__ = ["AHEAD", "PATIENCE", "due_after", "watch", "watch_in_thread"]

AHEAD = 12
"""CPU is counted from so many seconds before the instant on, so that what a scheduler does ahead counts too."""
PATIENCE = 60
"""For how many seconds after its instant a herd is watched. What has not finished by then is unfinished."""
_MARGIN = 4


def due_after(needed: float) -> int:
    """An instant for a herd that takes about so many seconds to be registered."""
    return int(time.time() + needed + AHEAD + _MARGIN)


async def watch(count: int, due_at: int, ran: Sequence[tuple[str, float]], finished: Sequence[float]) -> None:
    """Wait until all of it has finished, or patience has; then print it. `ran` and `finished` grow meanwhile."""
    await asyncio.to_thread(watch_in_thread, count, due_at, ran, finished)


def watch_in_thread(count: int, due_at: int, ran: Sequence[tuple[str, float]], finished: Sequence[float]) -> None:
    """The same, for a peer that has no loop of its own."""
    if (late := time.time() - (due_at - AHEAD)) > 0:
        raise RuntimeError(f"registering took {late:.0f} s longer than was foreseen; nothing can be measured")
    time.sleep(-late)
    used = _cpu()
    while len(finished) < count and time.time() < due_at + PATIENCE:
        time.sleep(0.05)
    used = _cpu() - used
    ends = list(finished)
    herd = {
        "count": count,
        "due_at": due_at,
        "ran": list(ran),
        "finished": len(ends),
        "finished_at": max(ends, default=time.time()),
        "cpu": used,
    }
    print(json.dumps(herd), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
