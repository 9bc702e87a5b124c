"""The time that a node waits for its store: at least one call was in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["StoreUse"]


class StoreUse:
    """The total duration of store calls. Simultaneous calls count once. Use it on one event loop."""

    def __init__(self, elapsed: Callable[[], int]) -> None:
        self._elapsed = elapsed
        self._calls = self._since = self._total = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Measure one call, including its retries."""
        if not self._calls:
            self._since = self._elapsed()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._total += self._elapsed() - self._since

    @property
    def total(self) -> int:
        """Microseconds since the start, including the call in progress."""
        return self._total + (self._elapsed() - self._since if self._calls else 0)
