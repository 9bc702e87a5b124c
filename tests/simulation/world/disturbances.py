"""The times at which a fault affected a process. The checker excuses delays at these times."""

from __future__ import annotations

from itinerary.testing.processes import Process

__all__ = ["Disturbances"]


class Disturbances:
    """Periods, by the store clock, in which a process was stopped or cut off, or its calls were slow or failed."""

    def __init__(self) -> None:
        self._segments: list[tuple[int, int | None, Process | None]] = []
        self._bewildered: list[tuple[int, int, Process]] = []

    def note(self, start: int, end: int | None, process: Process | None) -> None:
        """Add a period from `start` to `end` (None: no end). Without a process, it affects all processes."""
        self._segments.append((start, end, process))

    def hit(self, process: Process, start: int, end: int) -> bool:
        """True if a fault affected a process at some moment from `start` to `end`."""
        return any(
            begin <= end and (over is None or over >= start)
            for begin, over, whom in self._segments
            if whom is None or whom is process
        )

    def note_bewildered(self, start: int, end: int, process: Process) -> None:
        """Add a period in which a process could not measure time: it was frozen, or its clock jumped."""
        self._bewildered.append((start, end, process))

    def was_bewildered(self, process: Process, start: int, end: int) -> bool:
        """True if a process could not measure time at some moment from `start` to `end`."""
        return any(begin <= end and over >= start for begin, over, whom in self._bewildered if whom is process)
