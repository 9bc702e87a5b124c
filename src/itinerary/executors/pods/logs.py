"""The output of pods: read after their end, or followed if the log disappears with the pod.

A log is read once, after its container has ended. A deleted pod disappears soon after its end, together with its log.
From its deletion on, the log is therefore followed, if there are enough connections. The last line of a followed log
may be an error of the machine about the missing container.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from itinerary.executors.pods.api_client import ApiRefused, Cluster, Unreachable
from itinerary.executors.pods.attempts import PodAttempt
from itinerary.executors.pods.definition import MAIN
from itinerary.executors.pods.status import PodStatus
from itinerary.executors.pods.watch import backed_off

__all__ = ["LOG_PATIENCE", "PodLogReader"]

LOG_PATIENCE: Final = 30.0
"""Seconds for which an unavailable log is requested. The outcome is known, and other components wait for it."""
_LOG_END: Final = 5.0
"""Seconds to wait for the rest of the log after the container has ended."""
_FOLLOWED_MAX: Final = 20
"""The most logs to follow at a time. A followed log uses a connection until its container ends."""
_CONTAINER_GONE: Final = re.compile(rb'rpc error: code = NotFound desc = [^\n]*container "[0-9a-f]{64}"[^\n]*\Z')

_log: Final = structlog.stdlib.get_logger()


class PodLogReader:
    """The reader of logs into the tails of attempts. `calls` limits the simultaneous calls."""

    def __init__(
        self, calls: asyncio.Semaphore, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._calls, self._spawn = calls, spawn
        self._followed = asyncio.Semaphore(_FOLLOWED_MAX)

    def follow(self, cluster: Cluster, attempt: PodAttempt) -> None:
        """Follow the log of a pod until its end."""
        assert attempt.sight is not None, "it was placed"
        if attempt.reader is None and attempt.sight.has_started and not self._followed.locked():
            attempt.reader = self._spawn(self._read_along(cluster, attempt))

    async def _read_along(self, cluster: Cluster, attempt: PodAttempt) -> None:
        async with self._followed:
            with suppress(Unreachable, ApiRefused):  # the part that was read is kept
                await cluster.log(attempt.namespace, attempt.name, MAIN, attempt.tail.write, follow=True)

    async def read(self, cluster: Cluster, attempt: PodAttempt, sight: PodStatus) -> None:
        """Read the output of a pod after its end."""
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
            except (Unreachable, ApiRefused) as error:
                failures += 1
                if isinstance(error, ApiRefused) or loop.time() > until:
                    _log.warning("pod.log_unread", pod=attempt.name, error=str(error))
                    return
                await asyncio.sleep(backed_off(failures))
            else:
                return
