"""Occurrences as they end, one line each, in a terminal or a file: the events of the run log, for people.

    12:00:01  tick               completed      on time     12 ms
    12:00:03  flaky              failed       1.2 s late  210 ms  task flaky failed after 3 attempts: …

The scheduler reports events on its own loop, and must not wait for a terminal. So lines go through a queue to a thread
that prints them. If the thread cannot keep up, lines are left out and counted. The scheduler is never delayed.

Printing a line takes longer than running a short task. So the number of lines per second and outcome is limited.
Further runs are counted, and one line shows their number.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from queue import Empty, Full, Queue
from typing import Final, assert_never

from rich.console import Console
from rich.text import Text

from itinerary.api import Itinerary, RunningNode
from itinerary.cli.output import lines, one_line, shown_state
from itinerary.core.loop.events import OccurrenceDecided, OccurrenceEnded, SchedulerEvent
from itinerary.core.loop.log_budget import SUMMARY_AFTER, LogBudget, Summary
from itinerary.core.timeline.history import JobActive, JobPaused
from itinerary.core.timeline.timeline import Timeline
from itinerary.errors import ItineraryError
from itinerary.explain.formatting import spoken
from itinerary.jobs.undeclared import UndeclaredJobs
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Undeclared
from itinerary.model.rows import JobRow
from itinerary.model.states import OccurrenceState
from itinerary.observe.listen_address import ListenAt
from itinerary.observe.run_log import RunEnd, run_end
from itinerary.schedules.durations import SECOND
from itinerary.signal_safe_wait import join_thread

__all__ = ["Ticker", "header", "undeclared_line"]

_BATCHES_MAX: Final = 1_000
"""The most batches of lines that may wait for the terminal."""
_CLOSE_TIMEOUT: Final = 2.0
"""The longest time for printing the remaining lines after the node has ended, in seconds."""
_WHY_MAX: Final = 160
_NEXT_SHOWN: Final = 5
_UNDECLARED_SHOWN: Final = 20
_NAME_WIDTH: Final = 22
_ON_TIME: Final = 0.1
"""The largest start lateness that counts as on time, in seconds."""
_NEVER_STARTED: Final = frozenset({OccurrenceState.SKIPPED, OccurrenceState.MISSED})
_IN_SECONDS: Final = 10.0
"""The duration in seconds from which milliseconds are not shown."""


class Ticker:
    """A printer of ended runs. Pass `handle` to the app, and close the ticker when the node has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._batches: Queue[Sequence[OccurrenceEnded | OccurrenceDecided] | None] = Queue(_BATCHES_MAX)
        self._ended_at = 0
        """The end of the last run with a known end, in microseconds."""
        self._left_out = 0
        self._budget = LogBudget()
        self._thread = threading.Thread(target=self._print, name="itinerary-ticker", daemon=True)
        self._thread.start()

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Handle events, on the scheduler's loop."""
        if ended := [item for item in news if isinstance(item, OccurrenceEnded | OccurrenceDecided)]:
            try:
                self._batches.put_nowait(ended)
            except Full:
                self._left_out += len(ended)

    def close(self) -> None:
        """Print the remaining lines, and end. A blocked terminal does not delay the end of the node."""
        try:
            self._batches.put(None, timeout=_CLOSE_TIMEOUT)
        except Full:
            return
        if join_thread(self._thread, _CLOSE_TIMEOUT) and self._left_out:
            self._console.print(f"{self._left_out} lines were left out: the terminal could not keep up")

    def _print(self) -> None:
        while True:
            try:
                batch = self._batches.get(timeout=None if not self._budget.owes else SUMMARY_AFTER)
            except Empty:
                self._summarise(self._budget.close())
                continue
            if batch is None:
                self._summarise(self._budget.close())
                return
            for item in batch:
                self._print_end(run_end(item))
            self._summarise(self._budget.summaries(self._ended_at))

    def _print_end(self, end: RunEnd) -> None:
        self._ended_at = end.ended_at or self._ended_at
        if self._budget.admits(end.outcome.value, end.job, self._ended_at):
            self._console.print(line(end), soft_wrap=True)

    def _summarise(self, summaries: Sequence[Summary]) -> None:
        for one in summaries:
            self._console.print(summary_line(one), soft_wrap=True)


def summary_line(summary: Summary) -> Text:
    """Return the line for runs with the same outcome in one second, beyond those that have a line each."""
    text = Text(" " * 10)
    text.append(f"{summary.lines:,} more ".rjust(_NAME_WIDTH + 1))
    text.append(f"{summary.event:<14}", shown_state(summary.event).style)
    names = ", ".join(one_line(job) for job in dict.fromkeys(summary.examples))
    text.append(f"  of {names}, …", "dim")
    return text


def line(end: RunEnd) -> Text:
    """Return the line for the end of one run."""
    text = Text()
    text.append(f"{_shown_time(end.ended_at)}  ", "dim")
    text.append(f"{one_line(end.job):<{_NAME_WIDTH}} ")
    text.append(f"{end.outcome:<14}", shown_state(end.outcome).style)
    text.append(f"{_lateness(end):>14}", "dim")
    text.append(f"{_duration(end):>9}")
    if end.why:
        why = lines(end.why)[-1].strip()
        text.append(f"  {why if len(why) <= _WHY_MAX else why[:_WHY_MAX] + '…'}", "dim")
    if end.count > 1:
        text.append(f"  ({end.count} instants)", "dim")
    return text


def _lateness(end: RunEnd) -> str:
    if end.duration is None:  # the start is unknown if another node started it
        return "not started" if end.occurrence is not None or end.outcome in _NEVER_STARTED else ""
    if end.kind is not Kind.SCHEDULED or end.delay is None:
        return str(end.kind)
    return "on time" if end.delay < _ON_TIME else f"{end.delay:.1f} s late"


def _duration(end: RunEnd) -> str:
    if end.duration is None:
        return ""
    return f"{end.duration * 1_000:.0f} ms" if end.duration < _IN_SECONDS else f"{end.duration:.0f} s"


def _shown_time(ended_at: int | None) -> str:
    at = datetime.now(UTC) if ended_at is None else datetime.fromtimestamp(ended_at / SECOND, UTC)
    return f"{at.astimezone():%H:%M:%S}"


def undeclared_line(found: UndeclaredJobs | None) -> str | None:
    """Return the line about jobs that their source no longer declares. None if there are none."""
    if found is None or not found.jobs:
        return None
    more = len(found.jobs) - _UNDECLARED_SHOWN
    names = ", ".join(map(one_line, found.jobs[:_UNDECLARED_SHOWN])) + (f" and {more} more" if more > 0 else "")
    match found.undeclared:
        case Undeclared.STOP:
            became = "stopped", "--prune removes them, --keep lets them run; declare one again to start it"
        case Undeclared.REMOVE:
            became = "removed", "their history stays"
        case Undeclared.KEEP:
            became = "kept, and running", "--prune removes them"
        case _:
            assert_never(found.undeclared)
    return f"no longer in {found.source}, {became[0]}: {names} ({became[1]})"


def _others(app: Itinerary, node: RunningNode) -> list[str]:
    """Return the jobs of the store that are not declared here and not stopped."""
    timeline = node.watched.timeline()
    if timeline is None or len(timeline.jobs) <= len(app):
        return []
    kept = () if node.undeclared is None else node.undeclared.jobs
    found = [row for row in timeline.jobs.values() if row.name not in app and row.name not in kept]
    return [row.name for row in found if _is_expected(timeline, row)]


def _is_expected(timeline: Timeline, job: JobRow) -> bool:
    try:
        segments = timeline.history(job.number).segments
    except ItineraryError:
        return False  # no node can read it
    return bool(segments) and isinstance(segments[-1].status, JobActive | JobPaused)


def header(app: Itinerary, node: RunningNode, web: ListenAt | None = None) -> Text:
    """Return the greeting: what runs, where, and the next runs."""
    text = Text()
    text.append("Itinerary ", "bold")
    text.append(f"node {node.name} on {node.store}\n")
    upcoming = sorted((at, job.name) for job in app if (at := job.next_run()) is not None and not job.is_paused)
    text.append(f"{len(app)} {'job' if len(app) == 1 else 'jobs'}; ")
    text.append("next: " if upcoming else "nothing is due\n")
    for place, (at, name) in enumerate(upcoming[:_NEXT_SHOWN]):
        text.append(f"{', ' if place else ''}{one_line(name)} ")
        text.append(f"{at.astimezone():%H:%M:%S}", "bold")
    if upcoming:
        text.append(", …\n" if len(upcoming) > _NEXT_SHOWN else "\n")
    if others := _others(app, node):
        more = f" and {len(others) - _NEXT_SHOWN} more" if len(others) > _NEXT_SHOWN else ""
        names = ", ".join(map(one_line, others[:_NEXT_SHOWN]))
        text.append(f"also in this store, declared elsewhere: {names}{more}\n")
    if node.health is not None:
        text.append(f"probes and metrics on http://{node.health}\n")
    if web is not None:
        text.append("dashboard on ").append(f"http://{web}\n", "bold")
    grace = spoken(app.configuration.settings.finish_timeout)
    text.append(f"Ctrl-C: stop after running tasks finish ({grace}); twice: stop now\n", "dim")
    return text
