"""Task transactions (D6): one task at a time receives the right to make the next write of its occurrence.

A task transaction commits together with the success of its attempt. The transaction makes one write of the occurrence,
with the next sequence number. So the loop writes all earlier changes first, and writes nothing else until the
transaction ends.
"""

from __future__ import annotations

from itinerary.core.loop import lifecycle
from itinerary.core.loop import tasks as working
from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import LogLevel
from itinerary.core.loop.messages import TransactionEnded, TransactionOpened
from itinerary.core.loop.occurrence import OccurrenceRun
from itinerary.core.loop.replies import RequestReply, WriteGrant
from itinerary.core.loop.state import SchedulerState
from itinerary.core.loop.task_progress import TaskPhase, TaskProgress
from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import AttemptRow
from itinerary.model.states import TaskState
from itinerary.model.writes import OwnerWrite

__all__ = ["WriteGrants"]


class WriteGrants:
    """Tasks that wait for a transaction, and the grants to them."""

    def __init__(self, scheduler: SchedulerState) -> None:
        self._scheduler = scheduler
        self._waiting: list[TransactionOpened] = []

    def opened(self, message: TransactionOpened, out: CommandBatch) -> None:
        """Handle the request of a task for a transaction."""
        self._waiting.append(message)
        self.lend(out)

    def lend(self, out: CommandBatch) -> None:
        """Grant transactions to waiting tasks, as soon as all earlier changes are written."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            run, task = self._task(message.attempt)
            if run is None or task is None or task.phase is not TaskPhase.RUNNING:
                out.reply(message.reply, RequestReply(done=False, why="its attempt is over"))
            elif task.has_committed:
                out.reply(
                    message.reply, RequestReply(done=False, why="its attempt has committed a transaction already")
                )
            elif not run.writer.can_be_lent:
                self._waiting.append(message)
                out.is_urgent = True
            else:
                out.reply(message.reply, _loan(run, task, message.attempt))

    def ended(self, message: TransactionEnded, now: int, out: CommandBatch) -> None:
        """Handle the end of a transaction."""
        run, task = self._task(message.attempt)
        if run is None or task is None or run.writer.lent_to != message.attempt:
            out.log(LogLevel.INFO, "transaction.late", attempt=tuple(message.attempt), committed=message.committed)
            return
        run.writer.give_back(message.writes)
        working.transaction_ended(run, task, now, out, committed=message.committed)
        lifecycle.proceed(run, now, out)
        self._scheduler.after(run, now, out)
        self.lend(out)

    def _task(self, attempt: AttemptKey) -> tuple[OccurrenceRun | None, TaskProgress | None]:
        run = self._scheduler.live.get(attempt.ref)
        task = None if run is None else run.task_at(attempt.place)
        return run, task if task is not None and task.number == attempt.number else None


def _loan(run: OccurrenceRun, task: TaskProgress, attempt: AttemptKey) -> WriteGrant:
    sequence, fence = run.writer.lend(attempt), run.writer.fence
    done = AttemptRow(*attempt, TaskState.SUCCESS, task.started_at)
    failed = AttemptRow(*attempt, TaskState.FAILED, task.started_at, error="its commit failed")
    success = OwnerWrite(run.ref, fence, sequence, attempts=(done,))
    return WriteGrant(success, OwnerWrite(run.ref, fence, sequence, attempts=(failed,)))
