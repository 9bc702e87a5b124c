"""When something stood in a process's way: so that nobody is blamed for being late who could not help it."""

from __future__ import annotations

from itinerary.simulate.processes import Process

__all__ = ["Disturbances"]


class Disturbances:
    """Stretches of time, by the store's clock, in which a process was stopped, cut off, or badly served."""

    def __init__(self) -> None:
        self._stretches: list[tuple[int, int | None, Process | None]] = []
        self._bewildered: list[tuple[int, int, Process]] = []

    def note(self, start: int, end: int | None, process: Process | None) -> None:
        """Something stood in the way from `start` to `end` (None: for good); of everybody, if no process is given."""
        self._stretches.append((start, end, process))

    def hit(self, process: Process, start: int, end: int) -> bool:
        """Whether anything stood in this process's way at some moment from `start` to `end`."""
        return any(
            begin <= end and (over is None or over >= start)
            for begin, over, whom in self._stretches
            if whom is None or whom is process
        )

    def note_bewildered(self, start: int, end: int, process: Process) -> None:
        """From `start` to `end` a process could not know how much time passed: it was frozen, or its clock jumped."""
        self._bewildered.append((start, end, process))

    def was_bewildered(self, process: Process, start: int, end: int) -> bool:
        """Whether that was so at some moment from `start` to `end`."""
        return any(begin <= end and over >= start for begin, over, whom in self._bewildered if whom is process)
