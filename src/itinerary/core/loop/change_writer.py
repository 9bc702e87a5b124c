"""Changes to one occurrence that are not written yet, and the work that waits for those writes.

The change writer collects state steps, task rows and attempt rows, and sends them as one `OwnerWrite` with the next
sequence number. Several changes may be in flight, and the store answers them in order.

**Gates.** Nothing is launched before its row is durable (protocol rule 8). A launch waits here under the sequence
number of its write, until the store answers that write.

**Held.** Two kinds of write hold back all others. A change that takes shares of limits can be refused and is then
retried. A task transaction (D6) makes its own write. While one of these is open, new changes are collected and written
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from itinerary.core.loop.command_batch import CommandBatch
from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import AttemptRow, Ref, TaskRow
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState, advance
from itinerary.model.writes import Limit, OwnerWrite, Step

__all__ = ["ChangeWriter"]

G = TypeVar("G")

_BY_WAY_OF: Final = {
    (OccurrenceState.RETRYING, OccurrenceState.RUNNING): OccurrenceState.PENDING,
    (OccurrenceState.RETRYING, OccurrenceState.CONTAINER_CREATING): OccurrenceState.PENDING,
    (OccurrenceState.RETRYING, OccurrenceState.COMPLETED): OccurrenceState.RUNNING,
    (OccurrenceState.RETRYING, OccurrenceState.COMPLETED_WITH_ERRORS): OccurrenceState.RUNNING,
    (OccurrenceState.RETRYING, OccurrenceState.FAILED_STALE): OccurrenceState.RUNNING,
    (OccurrenceState.CONTAINER_CREATING, OccurrenceState.FAILED_STALE): OccurrenceState.TERMINATING,
    (OccurrenceState.CONTAINER_CREATING, OccurrenceState.COMPLETED): OccurrenceState.RUNNING,
    (OccurrenceState.CONTAINER_CREATING, OccurrenceState.COMPLETED_WITH_ERRORS): OccurrenceState.RUNNING,
}
"""Transitions that need an intermediate state: for example, a pod that ended before the node saw it run."""


_RUNNING: Final = OccurrenceState.RUNNING
_COMPLETED: Final = OccurrenceState.COMPLETED


class ChangeWriter(Generic[G]):
    """Writer of the changes of one occurrence."""

    __slots__ = (
        "_attempts",
        "_gates",
        "_held",
        "_held_in",
        "_steps",
        "_tasks",
        "begun_with",
        "fence",
        "lent_to",
        "ref",
        "sequence",
        "state",
        "unanswered",
    )

    def __init__(self, ref: Ref, fence: int, sequence: int, state: OccurrenceState) -> None:
        self.ref, self.fence, self.sequence, self.state = ref, fence, sequence, state
        self.begun_with = sequence
        """The sequence number of the start. Writes up to this number were not made by this change writer."""
        self.unanswered = 0
        self.lent_to: AttemptKey | None = None
        """The attempt whose transaction makes the next write."""
        self._held: OwnerWrite | bool = False
        self._held_in = state
        """The state before the held change, which is the state in the store."""
        # Ten thousand change writers may exist at a time, so containers that few of them need are created late.
        self._steps: tuple[Step, ...] = ()
        self._tasks: dict[int, TaskRow] | None = None
        self._attempts: dict[tuple[int, int], AttemptRow] | None = None
        self._gates: dict[int, Sequence[G]] | None = None

    def step(self, to: OccurrenceState, now: int, why: str | None = None) -> None:
        """Move to another state, through an intermediate state where the transition table needs one.

        A step to the current state does nothing.
        """
        if (between := _BY_WAY_OF.get((self.state, to))) is not None:
            self.step(between, now)
        if to is not self.state:
            if not self._steps and not self.is_held:
                self._held_in = self.state
            self.state = advance(self.state, to)
            self._steps += (Step(to, now, why),)

    def show(self, to: OccurrenceState, now: int) -> None:
        """Move to the state that several tasks amount to (O8), if the transition table allows it.

        Example: one task is being stopped and another waits to retry, so the occurrence shows `retrying`. When only the
        first one is left, the table has no transition to `terminating`, and the state stays.
        """
        if (self.state, to) in _BY_WAY_OF or to in TRANSITIONS[self.state]:
            self.step(to, now)

    @property
    def stored_state(self) -> OccurrenceState:
        """The state that the store has or is about to have. A change that waits for shares does not count."""
        return self._held_in if self.is_refused else self.state

    def note(self, task: TaskRow | None = None, attempt: AttemptRow | None = None) -> None:
        """Add the current row of a task or an attempt to the next write."""
        if task is not None:
            if self._tasks is None:
                self._tasks = {}
            self._tasks[task.place] = task
        if attempt is not None:
            if self._attempts is None:
                self._attempts = {}
            self._attempts[attempt.place, attempt.number] = attempt

    def write(
        self,
        out: CommandBatch,
        *,
        is_urgent: bool = False,
        gate: Sequence[G] = (),
        takes: Sequence[Limit] = (),
        gives_back: bool = False,
    ) -> None:
        """Write all collected changes as one change, unless a write is held.

        Args:
            out: Receives the change.
            is_urgent: True if the write must not wait for other changes.
            gate: Work to launch when the write is durable.
            takes: Limits of which the write takes a share.
            gives_back: True if the write gives back the shares of limits.
        """
        if self._held is not False:
            assert not gate, "nothing is launched while a write is held"
            return
        if not (self._steps or self._tasks or self._attempts or gate or takes or gives_back):
            return
        self.sequence += 1
        if not self._steps:
            self._held_in = self.state
        change = OwnerWrite(
            self.ref,
            self.fence,
            self.sequence,
            self._steps,
            () if self._tasks is None else tuple(self._tasks.values()),
            () if self._attempts is None else tuple(self._attempts.values()),
            tuple(takes),
            gives_back,
        )
        self._steps, self._tasks, self._attempts = (), None, None
        if gate:
            self._gates = {**(self._gates or {}), self.sequence: gate}
        if takes:
            self._held = change
        self._send(out, change, is_urgent=is_urgent or bool(gate))

    @property
    def is_clean(self) -> bool:
        """True if the occurrence runs and nothing else is left to write, so the next write can record its end."""
        return self.state is _RUNNING and not (
            self._held or self._steps or self._tasks or self._attempts or self._gates or self.lent_to
        )

    def complete(self, out: CommandBatch, task: TaskRow, attempt: AttemptRow, now: int) -> None:
        """Write that the occurrence and its only task have completed.

        Fast path for `note`, `step` and `write`.
        """
        assert self.is_clean, "nothing else is to be written"
        self.state = _COMPLETED
        self.sequence += 1
        change = OwnerWrite(self.ref, self.fence, self.sequence, (Step(_COMPLETED, now),), (task,), (attempt,))
        self._send(out, change, is_urgent=True)

    def _send(self, out: CommandBatch, change: OwnerWrite, *, is_urgent: bool) -> None:
        self.unanswered += 1
        out.changes.append(change)
        out.is_urgent = out.is_urgent or is_urgent

    def written(self, change: OwnerWrite) -> Sequence[G]:
        """Record that a change is durable. Return the work that waited for it."""
        self.unanswered -= 1
        if change is self._held or (isinstance(self._held, OwnerWrite) and self._held.sequence == change.sequence):
            self._held = False
        return self._opened(change.sequence)

    def _opened(self, sequence: int) -> Sequence[G]:
        return () if self._gates is None else self._gates.pop(sequence, ())

    # -- holding -----------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True if nothing can be written now."""
        return self._held is not False

    @property
    def is_refused(self) -> bool:
        """True if the held change was refused for lack of shares and waits for a retry."""
        return isinstance(self._held, OwnerWrite) and not self.unanswered

    @property
    def can_be_lent(self) -> bool:
        """True if everything is written, so that a transaction may make the next write."""
        return self._held is False and not self.unanswered and not (self._steps or self._tasks or self._attempts)

    def lend(self, attempt: AttemptKey) -> int:
        """Let the transaction of an attempt make the next write. Return the sequence number of that write."""
        assert self.can_be_lent, "writes are answered in order"
        self._held, self.lent_to = True, attempt
        return self.sequence + 1

    def give_back(self, writes: int) -> None:
        """End the right of a transaction to write. `writes` is the number of writes that the transaction made."""
        assert self._held is True, "it was lent"
        self._held, self.lent_to = False, None
        self.sequence += writes

    def limited(self) -> None:
        """Record that the held change was refused for lack of shares. The change stays held for a retry."""
        assert isinstance(self._held, OwnerWrite), "only what takes shares can lack them"
        self.unanswered -= 1

    def ask_again(self, out: CommandBatch) -> None:
        """Retry the change that was refused for lack of shares."""
        assert isinstance(self._held, OwnerWrite), "only what takes shares can lack them"
        if not self.unanswered:
            self._send(out, self._held, is_urgent=True)

    def give_up(self) -> Sequence[G]:
        """Drop the change that was refused for lack of shares, and reuse its sequence number.

        Return the work that waited for it.
        """
        assert isinstance(self._held, OwnerWrite), "only what takes shares can lack them"
        assert not self.unanswered, "its answer is known"
        waiting = self._opened(self._held.sequence)
        self.sequence -= 1
        self._held = False
        self.state = self._held_in
        ends, self._steps = self._steps[-1:], ()
        for step in ends:  # drop states shown after the refused change; keep an end
            if step.to in FINAL:
                self.step(step.to, step.at or 0, step.why)
        return waiting
