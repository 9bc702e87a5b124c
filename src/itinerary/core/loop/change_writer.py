"""What is to be written about one occurrence, and what waits for it to be written.

Steps, tasks and attempts come together here as they happen, and leave as a `Change` with the next sequence number.
Several changes may be on their way; they are answered in order.

**Gates.** Nothing is launched before the row that says so is durable (protocol rule 8). What is to be launched waits
here, under the number of the write that it waits for, and comes out when that is answered.

**Held.** A change that takes shares of limits can be refused and asked for again, and a task's transaction (D6) writes
by itself. While one of these is open nothing else is written, and what happens meanwhile is written afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from itinerary.core.loop.command_batch import Outbox
from itinerary.model.attempts import AttemptKey
from itinerary.model.rows import AttemptRow, Ref, TaskRow
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState, advance
from itinerary.model.writes import Change, Limit, Step

__all__ = ["Pen"]

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
"""Steps that the table has only in two: a pod, say, that was over before anybody saw it run."""


_RUNNING: Final = OccurrenceState.RUNNING
_COMPLETED: Final = OccurrenceState.COMPLETED


class Pen(Generic[G]):
    """Writes about one occurrence."""

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
        """The write that started it; those before it were not made with this pen."""
        self.unanswered = 0
        self.lent_to: AttemptKey | None = None
        """Whose transaction makes the next write."""
        self._held: Change | bool = False
        self._held_in = state
        """The state in which what is held found it: that is what the store has."""
        # Ten thousand pens may be in use at a time: what most of them never hold is not made ahead.
        self._steps: tuple[Step, ...] = ()
        self._tasks: dict[int, TaskRow] | None = None
        self._attempts: dict[tuple[int, int], AttemptRow] | None = None
        self._gates: dict[int, Sequence[G]] | None = None

    def step(self, to: OccurrenceState, now: int, why: str | None = None) -> None:
        """Go to another state; the same one again says why, if there is something to say."""
        if (between := _BY_WAY_OF.get((self.state, to))) is not None:
            self.step(between, now)
        if to is not self.state:
            if not self._steps and not self.is_held:
                self._held_in = self.state
            self.state = advance(self.state, to)
            self._steps += (Step(to, now, why),)

    def show(self, to: OccurrenceState, now: int) -> None:
        """Go to the state that several tasks amount to (O8); where the table has no way there, the one it is in stands.

        One that is being stopped beside one that waits to retry shows as `retrying`, and when only the first is left
        there is no way to `terminating`, nor any need for one.
        """
        if (self.state, to) in _BY_WAY_OF or to in TRANSITIONS[self.state]:
            self.step(to, now)

    @property
    def stored_state(self) -> OccurrenceState:
        """The state that the store has, or will have in a moment: not that of a change which waits for shares."""
        return self._held_in if self.is_refused else self.state

    def note(self, task: TaskRow | None = None, attempt: AttemptRow | None = None) -> None:
        """Say how a task or an attempt is by now."""
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
        out: Outbox,
        *,
        is_urgent: bool = False,
        gate: Sequence[G] = (),
        takes: Sequence[Limit] = (),
        gives_back: bool = False,
    ) -> None:
        """Have written what there is to write. What is behind the `gate` comes out with the answer."""
        if self._held is not False:
            assert not gate, "nothing is launched while a write is held"
            return
        if not (self._steps or self._tasks or self._attempts or gate or takes or gives_back):
            return
        self.sequence += 1
        if not self._steps:
            self._held_in = self.state
        change = Change(
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
        """Whether it runs, and everything about that is on its way: the next write can say how it ends."""
        return self.state is _RUNNING and not (
            self._held or self._steps or self._tasks or self._attempts or self._gates or self.lent_to
        )

    def complete(self, out: Outbox, task: TaskRow, attempt: AttemptRow, now: int) -> None:
        """Have written that it has completed, with its one task: what `note`, `step` and `write` come to then."""
        assert self.is_clean, "nothing else is to be written"
        self.state = _COMPLETED
        self.sequence += 1
        change = Change(self.ref, self.fence, self.sequence, (Step(_COMPLETED, now),), (task,), (attempt,))
        self._send(out, change, is_urgent=True)

    def _send(self, out: Outbox, change: Change, *, is_urgent: bool) -> None:
        self.unanswered += 1
        out.changes.append(change)
        out.is_urgent = out.is_urgent or is_urgent

    def written(self, change: Change) -> Sequence[G]:
        """A change stands. Returns what waited for it."""
        self.unanswered -= 1
        if change is self._held or (isinstance(self._held, Change) and self._held.sequence == change.sequence):
            self._held = False
        return self._opened(change.sequence)

    def _opened(self, sequence: int) -> Sequence[G]:
        return () if self._gates is None else self._gates.pop(sequence, ())

    # -- holding -----------------------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether nothing can be written now."""
        return self._held is not False

    @property
    def is_refused(self) -> bool:
        """Whether a change waits here that was refused for lack of shares."""
        return isinstance(self._held, Change) and not self.unanswered

    @property
    def can_be_lent(self) -> bool:
        """Whether everything is written, so that a transaction may make the next write."""
        return self._held is False and not self.unanswered and not (self._steps or self._tasks or self._attempts)

    def lend(self, attempt: AttemptKey) -> int:
        """Let an attempt's transaction make the next write. Returns its number."""
        assert self.can_be_lent, "writes are answered in order"
        self._held, self.lent_to = True, attempt
        return self.sequence + 1

    def give_back(self, writes: int) -> None:
        """The transaction is over, having made so many writes."""
        assert self._held is True, "it was lent"
        self._held, self.lent_to = False, None
        self.sequence += writes

    def limited(self) -> None:
        """The change that takes shares was refused for lack of them: it stays held, to be asked for again."""
        assert isinstance(self._held, Change), "only what takes shares can lack them"
        self.unanswered -= 1

    def ask_again(self, out: Outbox) -> None:
        """Have the change that was refused for lack of shares tried again."""
        assert isinstance(self._held, Change), "only what takes shares can lack them"
        if not self.unanswered:
            self._send(out, self._held, is_urgent=True)

    def give_up(self) -> Sequence[G]:
        """Do without what was refused for lack of shares: its number is free again. Returns what waited for it."""
        assert isinstance(self._held, Change), "only what takes shares can lack them"
        assert not self.unanswered, "its answer is known"
        waiting = self._opened(self._held.sequence)
        self.sequence -= 1
        self._held = False
        self.state = self._held_in
        ends, self._steps = self._steps[-1:], ()
        for step in ends:  # what was shown meanwhile never was so; its end stands
            if step.to in FINAL:
                self.step(step.to, step.at or 0, step.why)
        return waiting
