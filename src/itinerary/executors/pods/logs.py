"""What pods print: read when they are over, or along with their end, when that takes the log with it.

A log is asked for once, after its container has ended. A pod that is being deleted is gone soon after that, and its log
with it: so from the moment of its deletion it is followed, as far as there are connections for that. Whoever follows a
log to the end of its container may find that the machine's own complaint about the missing container is the last line.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from itinerary.executors.pods.api_client import Cluster, Refused, Unreachable
from itinerary.executors.pods.attempts import PodAttempt
from itinerary.executors.pods.definition import MAIN
from itinerary.executors.pods.status import Sight
from itinerary.executors.pods.watch import backed_off

__all__ = ["LOG_PATIENCE", "Logs"]

LOG_PATIENCE: Final = 30.0
"""How long a log is asked for that cannot be had now, in seconds: the outcome is known, and others wait for it."""
_LOG_END: Final = 5.0
"""How long the log of a container that has ended may still be on its way."""
_FOLLOWED_MAX: Final = 20
"""How many logs are followed at a time: each takes a connection for as long as its container takes to end."""
_CONTAINER_GONE: Final = re.compile(rb'rpc error: code = NotFound desc = [^\n]*container "[0-9a-f]{64}"[^\n]*\Z')

_log: Final = structlog.stdlib.get_logger()


class Logs:
    """Reads logs into the tails of attempts. `calls` is how many calls are made at a time."""

    def __init__(
        self, calls: asyncio.Semaphore, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._calls, self._spawn = calls, spawn
        self._followed = asyncio.Semaphore(_FOLLOWED_MAX)

    def follow(self, cluster: Cluster, attempt: PodAttempt) -> None:
        """Read along until its end, from now on."""
        assert attempt.sight is not None, "it was placed"
        if attempt.reader is None and attempt.sight.has_started and not self._followed.locked():
            attempt.reader = self._spawn(self._read_along(cluster, attempt))

    async def _read_along(self, cluster: Cluster, attempt: PodAttempt) -> None:
        async with self._followed:
            with suppress(Unreachable, Refused):  # what came is what there is
                await cluster.log(attempt.namespace, attempt.name, MAIN, attempt.tail.write, follow=True)

    async def read(self, cluster: Cluster, attempt: PodAttempt, sight: Sight) -> None:
        """Read what it printed, now that it is over."""
        if attempt.reader is not None:
            await asyncio.wait([attempt.reader], timeout=_LOG_END)
            attempt.tail.cut(_CONTAINER_GONE)
            return
        loop = asyncio.get_running_loop()
        until, failures = loop.time() + LOG_PATIENCE, 0
        while sight.has_started and not sight.is_gone:
            try:
                attempt.tail.clear()
                async with self._calls:
                    await cluster.log(attempt.namespace, attempt.name, MAIN, attempt.tail.write, follow=False)
            except (Unreachable, Refused) as error:
                failures += 1
                if isinstance(error, Refused) or loop.time() > until:
                    _log.warning("pod.log_unread", pod=attempt.name, error=str(error))
                    return
                await asyncio.sleep(backed_off(failures))
            else:
                return
