"""How long a node waits for its store: the time in which at least one call was in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["StoreUse"]


class StoreUse:
    """Adds up the time of calls; several calls at once count once. Used on one loop only."""

    def __init__(self, elapsed: Callable[[], int]) -> None:
        self._elapsed = elapsed
        self._calls = self._since = self._total = 0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Measure one call, its repetitions included."""
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
        """Microseconds since the start, the call in progress included."""
        return self._total + (self._elapsed() - self._since if self._calls else 0)
