"""The context of a task: `ctx`, the only argument that a function may take (X9).

All values are computed on first use: ten thousand tasks that never read their ids should not pay for hashing them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC as UTC_TIME
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Final

from itinerary.errors import ScheduleError, TransactionError, UnknownZone
from itinerary.executors.cancellation import CancelFlags, TaskCancelled
from itinerary.executors.task_function import Function
from itinerary.executors.transactions import Transactions, TransactionScope
from itinerary.model.attempts import Assignment, AttemptInfo, AttemptKey, ZoneSpan
from itinerary.model.ids import AttemptId, OccurrenceId, TaskRunId
from itinerary.schedules.codec import from_stored
from itinerary.schedules.instants import MICROSECONDS
from itinerary.schedules.zones import UTC, UTC_NAME, Zone

__all__ = ["TRANSACTION_TIMEOUT", "CoveredInstants", "ExecutionContext", "arguments_of"]

TRANSACTION_TIMEOUT: Final = 30.0
"""The default limit for a task's transaction, in seconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC_TIME)


class CoveredInstants:
    """The instants that a run covers: its own, or all instants in the window of a compressed run (R5)."""

    def __init__(self, facts: AttemptInfo) -> None:
        self._facts = facts

    def __len__(self) -> int:
        window = self._facts.window
        return 1 if window is None else window.count

    def __iter__(self) -> Iterator[datetime]:
        facts = self._facts
        if facts.window is None:
            return iter((_datetime(facts.key.instant),))
        if facts.schedule is None:
            raise ScheduleError(
                f"job {facts.job!r}: this run answers for {facts.window.count} instants, from {self.start} on and "
                f"before {self.end}, but its schedule did not come with it; use start and end"
            )
        schedule = from_stored(facts.schedule)
        spans = facts.zones or (ZoneSpan(facts.window.start, facts.window.end),)
        return iter([at for span in spans for at in schedule.between(span.start, span.end, partial(_zone, span))])

    @property
    def start(self) -> datetime:
        """The first instant, or the start of the window."""
        window = self._facts.window
        return _datetime(self._facts.key.instant if window is None else window.start)

    @property
    def end(self) -> datetime:
        """The end of the window, exclusive."""
        window = self._facts.window
        return _datetime(self._facts.key.instant + MICROSECONDS if window is None else window.end)

    def __repr__(self) -> str:
        return f"<{len(self)} instants from {self.start} on and before {self.end}>"


def _zone(span: ZoneSpan, name: str) -> Zone:
    """Return a zone from the tables of the run, because this process may have other zone data."""
    if name == UTC_NAME:
        return UTC
    if name not in span.tables:
        raise UnknownZone(f"the table of time zone {name!r} did not come with this run; use start and end")
    return Zone.from_json(span.tables[name])


class ExecutionContext:
    """An attempt, as its task sees it. Instants are aware datetimes in UTC."""

    def __init__(
        self, key: AttemptKey, facts: AttemptInfo, flags: CancelFlags, transactions: Transactions | None = None
    ) -> None:
        self._key = key
        self._facts = facts
        self._flags = flags
        self._transactions = transactions

    @property
    def job(self) -> str:
        """The job's name."""
        return self._facts.job

    @property
    def version(self) -> int:
        """The job's version."""
        return self._facts.version

    @property
    def task(self) -> str:
        """The task's name."""
        return self._facts.task

    @property
    def node(self) -> str:
        """The node that runs the attempt."""
        return self._facts.node

    @cached_property
    def occurrence_id(self) -> OccurrenceId:
        """The permanent id of this occurrence, suitable as an idempotency key."""
        return self._facts.occurrence_id

    @cached_property
    def task_run_id(self) -> TaskRunId:
        """The id that all attempts of this task share, suitable as an idempotency key for the work of the task."""
        return self._facts.task_run_id

    @cached_property
    def attempt_id(self) -> AttemptId:
        """The id of this attempt."""
        return self._facts.attempt_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._facts.attempt

    @property
    def scheduled_at(self) -> datetime:
        """The due instant of this run."""
        return _datetime(self._facts.key.instant)

    @property
    def started_at(self) -> datetime:
        """When this attempt began."""
        return _datetime(self._facts.started_at)

    @property
    def last_run_at(self) -> datetime | None:
        """The instant of the last occurrence that started before this one."""
        at = self._facts.last_run_at
        return None if at is None else _datetime(at)

    @cached_property
    def window(self) -> CoveredInstants:
        """The instants that this run covers."""
        return CoveredInstants(self._facts)

    @property
    def is_recovery(self) -> bool:
        """True if this run recovers a missed instant."""
        return self._facts.is_recovery

    @property
    def is_replay(self) -> bool:
        """True if a user asked to run this occurrence again."""
        return self._facts.is_replay

    @cached_property
    def log(self) -> Any:
        """A logger that adds the job, task, run and attempt to every event.

        The type is Any, because the configuration of structlog decides what the logger can do.
        """
        import structlog  # noqa: PLC0415 - slow to import, and most tasks in worker processes never log

        facts = self._facts
        run = f"{facts.job}:{facts.key.instant // MICROSECONDS}"
        return structlog.get_logger().bind(job=facts.job, task=facts.task, run=run, attempt=facts.attempt)

    @property
    def cancelled(self) -> bool:
        """True if the attempt was asked to end. A long plain function should check this regularly."""
        return self._flags.is_stop_asked

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled if the attempt was asked to end."""
        if self._flags.is_stop_asked:
            raise TaskCancelled(f"task {self.task!r} of job {self.job!r} was asked to end")

    def transaction(self, *, timeout: float = TRANSACTION_TIMEOUT) -> TransactionScope:
        """Return a store transaction that commits together with this attempt's success, or not at all (D6).

        Use `async with` in a coroutine, and `with` in a plain function.

        Args:
            timeout: The limit for the transaction, in seconds.

        Raises:
            TransactionError: If the executor or the store offers no transaction.
        """
        if self._transactions is None:
            raise TransactionError(
                f"task {self.task!r} of job {self.job!r} has no transaction here: it takes a task in the node's own "
                "process (async or thread) and a store that offers one (PostgreSQL, SQLite)"
            )
        return self._transactions.scope(self._key, timeout, self._flags)

    def __repr__(self) -> str:
        return f"<ExecutionContext {self.job}/{self.task}, attempt {self.attempt}, for {self.scheduled_at}>"


def arguments_of(
    function: Function, assignment: Assignment, flags: CancelFlags, transactions: Transactions | None
) -> tuple[object, ...]:
    """Return the arguments for a function.

    A hook gets the argument of its assignment. A task gets its context, if it takes one.
    """
    if assignment.argument is not None:
        return (assignment.argument,)
    if not function.takes_context:
        return ()
    return (ExecutionContext(assignment.key, assignment.facts, flags, transactions),)


def _datetime(instant: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)
