"""Occurrences as they happen, one line each, in a terminal or a file.

    12:00:01  tick               completed      on time     12 ms
    12:00:03  flaky              failed       1.2 s late  210 ms  task flaky failed after 3 attempts: …

The engine tells of what happens on its own loop, and must not wait for a terminal. So lines go through a queue to a
thread that prints them; if that cannot keep up, lines are left out and counted, never the engine held up.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from queue import Full, Queue
from typing import Final

from rich.console import Console
from rich.text import Text

from itinerary.app import Itinerary, RunningNode
from itinerary.cli.output import lines, one_line, shown_state
from itinerary.core.news import Finished, News
from itinerary.model.occurrence import Kind
from itinerary.observe.addresses import ListenAt
from itinerary.schedules.durations import SECOND

__all__ = ["Ticker", "header"]

_LINES_MAX: Final = 10_000
"""How many lines may wait for the terminal."""
_WHY_MAX: Final = 160
_NEXT_SHOWN: Final = 5
_NAME_WIDTH: Final = 22


class Ticker:
    """Prints what ends. Give `hear` to the app, and close it when the node has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: Queue[Finished | None] = Queue(_LINES_MAX)
        self._left_out = 0
        self._thread = threading.Thread(target=self._print, name="itinerary-ticker", daemon=True)
        self._thread.start()

    def hear(self, news: Sequence[News]) -> None:
        """On the engine's loop."""
        for item in news:
            if isinstance(item, Finished):
                try:
                    self._lines.put_nowait(item)
                except Full:
                    self._left_out += 1

    def close(self) -> None:
        """Print what is left, and end."""
        self._lines.put(None)
        self._thread.join()
        if self._left_out:
            self._console.print(f"{self._left_out} lines were left out: the terminal could not keep up")

    def _print(self) -> None:
        while (item := self._lines.get()) is not None:
            self._console.print(line(item), soft_wrap=True)


def line(item: Finished) -> Text:
    """One occurrence that has ended."""
    text = Text()
    text.append(f"{_local(item.ended_at):%H:%M:%S}  ", "dim")
    text.append(f"{one_line(item.job):<{_NAME_WIDTH}} ")
    text.append(f"{item.outcome:<14}", shown_state(item.outcome).style)
    text.append(f"{_lateness(item):>14}", "dim")
    text.append(f"{_duration(item):>9}")
    if item.why:
        why = lines(item.why)[-1].strip()
        text.append(f"  {why if len(why) <= _WHY_MAX else why[:_WHY_MAX] + '…'}", "dim")
    return text


def _lateness(item: Finished) -> str:
    if item.started_at is None:
        return "not started"
    if item.key.kind is not Kind.SCHEDULED:
        return str(item.key.kind)
    late = item.started_at - item.key.instant
    return "on time" if late < SECOND // 10 else f"{late / SECOND:.1f} s late"


def _duration(item: Finished) -> str:
    if item.started_at is None:
        return ""
    took = max(item.ended_at - item.started_at, 0)
    return f"{took // 1_000} ms" if took < 10 * SECOND else f"{took / SECOND:.0f} s"


def _local(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / SECOND).astimezone()


def header(app: Itinerary, node: RunningNode, web: ListenAt | None = None) -> Text:
    """What runs, where, and what comes next."""
    text = Text()
    text.append("Itinerary ", "bold")
    text.append(f"node {node.name} on {node.store}\n")
    upcoming = sorted((at, job.name) for job in app if (at := job.next_run()) is not None)
    text.append(f"{len(app)} {'job' if len(app) == 1 else 'jobs'}; ")
    text.append("next: " if upcoming else "nothing is due\n")
    for place, (at, name) in enumerate(upcoming[:_NEXT_SHOWN]):
        text.append(f"{', ' if place else ''}{one_line(name)} ")
        text.append(f"{at.astimezone():%H:%M:%S}", "bold")
    if upcoming:
        text.append(", …\n" if len(upcoming) > _NEXT_SHOWN else "\n")
    if node.health is not None:
        text.append(f"probes and metrics on http://{node.health}\n")
    if web is not None:
        text.append("dashboard on ").append(f"http://{web}\n", "bold")
    text.append("Ctrl-C ends it: once and what runs is given time, twice and it ends at once.\n", "dim")
    return text
