"""The refusals of a server: counted for the metrics at once, and logged at most once a minute.

    first refusal      logged at once
    later refusals     counted, and logged together one minute after the last log line

An attack with a million requests therefore writes one log line a minute, and a single refusal is still visible.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

__all__ = ["LOG_INTERVAL", "Refusals"]

LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines."""
_CLIENTS_MAX: Final = 10
"""The most addresses that a log line names."""


class Refusals:
    """The refusals of one server. Use it on one event loop."""

    def __init__(self, server: str, log: Any, count: Callable[[str, str], None]) -> None:
        """Create a log of refusals.

        Args:
            server: `web` or `health`.
            log: Receives the log lines.
            count: Receives the server and the status of every refusal.
        """
        self._server, self._log, self._count = server, log, count
        self._reasons: Counter[str] = Counter()
        self._clients: Counter[str] = Counter()
        self._next_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def add(self, reason: str, client: str, status: int | None = None) -> None:
        """Count a refusal, and log it together with others.

        Args:
            reason: A short code, the same for the same cause.
            client: The address that was refused.
            status: The HTTP status of the answer; None if the connection was closed without an answer.
        """
        self.count(status)
        self.note(reason, client)

    def note(self, reason: str, client: str) -> None:
        """Log a refusal together with others, but do not count it. The sender of the answer counts it."""
        self._reasons[reason] += 1
        if client in self._clients or len(self._clients) < _CLIENTS_MAX:
            self._clients[client] += 1
        loop = asyncio.get_running_loop()
        if loop.time() >= self._next_at:
            self._write()
        elif self._timer is None:
            self._timer = loop.call_at(self._next_at, self._write)

    def count(self, status: int | None) -> None:
        """Count an answer for the metrics, but do not log it: for example, a page that was not found."""
        self._count(self._server, "none" if status is None else str(status))

    def close(self) -> None:
        """Log the remaining refusals."""
        if self._reasons:
            self._write()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next_at = asyncio.get_running_loop().time() + LOG_INTERVAL
        self._log.warning(
            "connections.refused",
            server=self._server,
            count=self._reasons.total(),
            reasons=dict(self._reasons),
            clients=[client for client, _ in self._clients.most_common()],
        )
        self._reasons.clear()
        self._clients.clear()
