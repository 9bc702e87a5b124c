"""Task transactions (D6): one task at a time receives the right to make the next write of its occurrence.

A task transaction commits together with the success of its attempt. The transaction makes one write of the occurrence,
with the next sequence number. So the loop writes all earlier changes first, and writes nothing else until the
transaction ends.
"""

from __future__ import annotations

from itinerary.core.loop import lifecycle
from itinerary.core.loop import tasks as working
from itinerary.core.loop.command_batch import Outbox
from itinerary.core.loop.commands import Level
from itinerary.core.loop.messages import TransactionEnded, TransactionOpened
from itinerary.core.loop.occurrence import Course
from itinerary.core.loop.replies import Loan, Told
from itinerary.core.loop.state import Board
from itinerary.core.loop.task_progress import Phase, TaskProgress
from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import AttemptRow
from itinerary.model.states import TaskState
from itinerary.model.writes import Change

__all__ = ["Lending"]


class Lending:
    """Tasks that wait for a transaction, and the grants to them."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._waiting: list[TransactionOpened] = []

    def opened(self, message: TransactionOpened, out: Outbox) -> None:
        """Handle the request of a task for a transaction."""
        self._waiting.append(message)
        self.lend(out)

    def lend(self, out: Outbox) -> None:
        """Grant transactions to waiting tasks, as soon as all earlier changes are written."""
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            course, task = self._task(message.attempt)
            if course is None or task is None or task.phase is not Phase.RUNNING:
                out.reply(message.reply, Told(done=False, why="its attempt is over"))
            elif task.has_committed:
                out.reply(message.reply, Told(done=False, why="its attempt has committed a transaction already"))
            elif not course.pen.can_be_lent:
                self._waiting.append(message)
                out.is_urgent = True
            else:
                out.reply(message.reply, _loan(course, task, message.attempt))

    def ended(self, message: TransactionEnded, now: int, out: Outbox) -> None:
        """Handle the end of a transaction."""
        course, task = self._task(message.attempt)
        if course is None or task is None or course.pen.lent_to != message.attempt:
            out.log(Level.INFO, "transaction.late", attempt=tuple(message.attempt), committed=message.committed)
            return
        course.pen.give_back(message.writes)
        working.transaction_ended(course, task, now, out, committed=message.committed)
        lifecycle.go_on(course, now, out)
        self._board.after(course, now, out)
        self.lend(out)

    def _task(self, attempt: AttemptKey) -> tuple[Course | None, TaskProgress | None]:
        course = self._board.live.get(attempt.ref)
        task = None if course is None else course.task_at(attempt.place)
        return course, task if task is not None and task.number == attempt.number else None


def _loan(course: Course, task: TaskProgress, attempt: AttemptKey) -> Loan:
    sequence, fence = course.pen.lend(attempt), course.pen.fence
    done = AttemptRow(*attempt, TaskState.SUCCESS, task.started_at)
    failed = AttemptRow(*attempt, TaskState.FAILED, task.started_at, error="its commit failed")
    success = Change(course.ref, fence, sequence, attempts=(done,))
    return Loan(success, Change(course.ref, fence, sequence, attempts=(failed,)))
