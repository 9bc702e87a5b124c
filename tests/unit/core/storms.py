"""A node, and everything that can happen to it: events for tests that let them come in any order.

What must hold all the time is in `check`; what must hold when everybody has calmed down is in `calm`.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from itinerary.core.loop import commands as c
from itinerary.core.loop import messages as m
from itinerary.core.loop.replies import WriteGrant
from itinerary.model.attempts import AttemptKey, Ended, Failed, Outcome, PodMoved, Stopped, Succeeded
from itinerary.model.codec import from_json
from itinerary.model.config import FrozenConfig
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.policies import OnShutdown, Retry
from itinerary.model.queries import LimitUseQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import FINAL, TASK_FINAL, OccurrenceState
from itinerary.model.writes import TakeoverWrite, Written
from itinerary.schedules import every
from tests.unit.core.bench import SECOND, World, done
from tests.unit.core.scripted import Act, fails, hangs, ignores, says, works

__all__ = ["ACTS", "ANSWERS", "CHOICES", "KEPT", "SAID", "STATES", "Storm", "blow"]

KEPT: Final = (c.Claim, c.StartRuns, c.Write, c.ReadRows, c.RebuildIndex)
"""What may be answered late."""
CREATING, RUNNING = OccurrenceState.CONTAINER_CREATING, OccurrenceState.RUNNING
ACTS: Final = (
    works(0),
    works(2),
    works(6),
    fails(after=0),
    fails(after=2),
    hangs(),
    hangs(stops_after=3),
    hangs(stops_after=1, stopped_as=Succeeded()),
    hangs(stopped_as=Stopped(was_called=False)),
    ignores(),
    ignores(after=15),
    works(3, moves=((1, CREATING),)),
    fails(after=3, moves=((1, CREATING), (2, RUNNING))),
    hangs(moves=((1, OccurrenceState.TERMINATING), (2, RUNNING))),
)
ANSWERS: Final = (says("true"), says("false"), says('"skip"'), says('"fail"'), says("?"), fails(), hangs())
STATES: Final = (None, OccurrenceState.ORPHANED, OccurrenceState.FAILED, OccurrenceState.CANCELLED)
SAID: Final[tuple[Outcome | OccurrenceState, ...]] = (Succeeded(), Failed("late"), Stopped(), RUNNING, CREATING)
CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "mode": ("sequential", "parallel"),
    "failure": ("fail_fast", "continue", "retry_on_failure"),
    "overlap": ("skip", "allow", "queue", "replace"),
    "retry": (Retry(), Retry(2, "0s"), Retry(1, "3s"), Retry(3, "1s", 2.0)),
    "limits": (("api",), ()),
    "task_timeout": ("2s", "1m"),
    "execution_timeout": ("7s", "1h"),
    "priority": (-1, 0, 1),
    "on_shutdown": tuple(OnShutdown),
    "requires": (
        (),
        (),
        (),
        (Requirement(python="app:ready", every="2s", deadline="9s"),),
        (
            Requirement(file="x", on_unmet=Unmet.SKIP),
            Requirement(python="app:ready", on_unmet=Unmet.ACT, action="app:act", every="2s", deadline="9s"),
        ),
    ),
    "on_start": ((), (), ("app:hook",)),
    "on_complete": ((), (), ("app:hook", "app:hook_too")),
}
OWN: Final[tuple[dict[str, dict[str, Any]], ...]] = (
    {},
    {"b": {"failure": "continue"}},
    {"a": {"failure": "retry_on_failure"}},
)


class Storm:
    """A node with two jobs, and what happens to it."""

    def __init__(self, one: dict[str, Any], two: dict[str, Any], own: int = 0, slots: int = 2) -> None:
        self.world = World(
            max_concurrent_jobs=slots,
            limits={"api": 1},
            grace_period=8 * SECOND,
            kill_grace=4 * SECOND,
            shutdown_grace_period=280 * SECOND,
        )
        self._jobs = {
            "one": (("a", "b"), every("3s"), {**one, "of_tasks": OWN[own]}),
            "two": (("b",), every("5s"), two),
        }
        self._loans: dict[str, AttemptKey] = {}
        self._asked = 0
        for name in self._jobs:
            self.job_changes(name, is_heard=True)

    def acts(self, a: list[Act], b: list[Act], ready: list[Act], hook: Act) -> None:
        for name, acts in {"a": a, "b": b, "python app:ready": ready, "file x": ready, "app:hook": [hook]}.items():
            self.world.does(name, *acts)
        self.world.does("app:act", hook)

    # -- what can happen ---------------------------------------------------------------------------------------------

    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    def answers_are_late(self, kinds: tuple[type[c.Command], ...]) -> None:
        self.world.let_go(settle=False)
        self.world.keep(*kinds)

    def answers_come(self) -> None:
        self.world.let_go()

    def somebody_cancels(self, place: int, is_durable: bool) -> None:
        if rows := [row for row in self.world.rows if row.status not in FINAL]:
            ref = rows[place % len(rows)].ref
            if is_durable:
                self.world.cancel(ref, by="anna")
            else:
                self.world.send(m.CancelRequested(ref, "anna"))

    def somebody_adjusts(self, place: int, overrides: str) -> None:
        if rows := [row for row in self.world.rows if row.started_at is None and row.status not in FINAL]:
            self.world.adjust(rows[place % len(rows)].ref, overrides)

    def somebody_intervenes(self, place: int, to: OccurrenceState | None) -> None:
        rows = [row for row in self.world.rows if row.status not in FINAL and (to or row.started_at is None)]
        if rows:
            row = rows[place % len(rows)]
            self.world.intervene(TakeoverWrite(row.ref, row.fence, to, "somebody else"))

    def job_changes(self, name: str, is_heard: bool) -> None:
        tasks, schedule, definition = self._jobs[name]
        self.world.job(name, *tasks, schedule=schedule, is_heard=is_heard, **definition)

    def executor_says(self, place: int, said: Outcome | OccurrenceState) -> None:
        """It says something of an attempt that runs, or ran once."""
        if launched := self.world.script.launched:
            key = launched[place % len(launched)].key
            report = PodMoved(key, said) if isinstance(said, OccurrenceState) else Ended(key, said)
            self.world.send(m.AttemptsReported([report]))

    def orchestrators_fall_silent(self, is_silent: bool) -> None:
        self.world.is_silent = is_silent

    def index_is_built(self) -> None:
        self.world.rebuild()

    def task_borrows(self, place: int) -> None:
        script = self.world.script
        if running := [one.key for one in script.launched if one.key in script._running and one.key.place >= 0]:
            self._asked += 1
            key = self._loans[f"loan {self._asked}"] = running[place % len(running)]
            self.world.send(m.TransactionOpened(key, f"loan {self._asked}"))

    def loans_come_back(self, commits: bool) -> None:
        for name in [name for name in self._loans if name in self.world.answers]:
            answer, key = self.world.answers[name], self._loans.pop(name)
            if isinstance(answer, WriteGrant):
                stands = False
                if commits:
                    (written,) = done(self.world.store.write(self.world.node, [answer.success]))
                    stands = isinstance(written, Written)
                self.world.send(m.TransactionEnded(key, stands, int(stands)))

    def clock_is_doubted(self, seconds: float) -> None:
        self.world.send(m.ClockDoubted(SECOND))
        self.world.run(seconds)
        self.world.send(m.ClockJumped(0, "a test"))

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """All the time."""
        scheduler = self.world.scheduler._scheduler
        held = sum(run.holds_slot for run in scheduler.by_ref.values())
        assert scheduler.line.free + held == self.world.settings.max_concurrent_jobs
        assert scheduler.line.free >= 0
        assert scheduler.unwritten >= 0
        assert scheduler.asked >= 0
        assert all(run.writer.unanswered >= 0 for run in scheduler.live.values())

    def calm(self) -> None:
        """Everybody calms down and the node shuts down: all trails are legal, and what was taken was given back."""
        world = self.world
        world.is_silent = False
        self.loans_come_back(commits=True)
        world.let_go()
        world.run(1)
        world.shut_down()
        for _ in range(60):
            if world.exited is not None:
                break
            world.let_go()
            self.loans_come_back(commits=False)
            world.run(5)
        for row in world.rows:
            world.trail(row.ref)
            assert row.status in FINAL or row.started_at is None or self._was_given_back(row), f"{row} is left running"
            if row.status is OccurrenceState.CANCELLED and row.reason == "node a was shut down":
                assert self._was_called(row), f"{row} was cancelled by the shutdown, and nothing of it was called"
        assert world.exited == c.Exit(0, None)
        world.at_rest()
        assert done(world.store.read(LimitUseQuery("api"))) == []

    def _was_given_back(self, row: OccurrenceRow) -> bool:
        """True if another node continues it at once, or when this one has left: an attempt was given up here."""
        attempts = self.world.detail(row.ref).attempts
        was_given_up = any(attempt.error == "cancelled, and given up: node a was shut down" for attempt in attempts)
        is_free = row.owner is None or (row.owner == self.world.node and was_given_up)
        return is_free and all(attempt.status in TASK_FINAL for attempt in attempts)

    def _was_called(self, row: OccurrenceRow) -> bool:
        """True if `on_shutdown` lets a shutdown cancel it: a task of it was called, or what a requirement asks for."""
        detail = self.world.detail(row.ref)
        policy = from_json(FrozenConfig, detail.config or "").job.on_shutdown
        called = [one for one in detail.attempts if one.error in _INTERRUPTED]
        acted = any(line.after is OccurrenceState.ACTION_RUNNING for line in detail.transitions)
        return policy is not OnShutdown.RERUN and (bool(called) or acted)


_INTERRUPTED: Final = ("cancelled: node a was shut down", "cancelled, and given up: node a was shut down")


def blow(dice: Random, steps: int) -> Storm:
    """A storm of so many events by the dice."""

    def some(choices: tuple[Any, ...]) -> list[Any]:
        return [dice.choice(choices) for _ in range(dice.randint(1, 3))]

    def definition() -> dict[str, Any]:
        return {key: dice.choice(values) for key, values in CHOICES.items()}

    storm = Storm(definition(), definition(), dice.randrange(len(OWN)), dice.choice((1, 2, 50)))
    storm.acts(some(ACTS), some(ACTS), some(ANSWERS), dice.choice(ACTS))
    storm.world.run_to(0.1)
    place = dice.randrange
    events: dict[Any, Any] = {
        storm.time_passes: lambda: (dice.choice((0.0, 0.5, 1.0, 1.0, 2.0, 5.0)),),
        storm.answers_are_late: lambda: (tuple(dice.sample(KEPT, dice.randint(0, 3))),),
        storm.answers_come: tuple,
        storm.somebody_cancels: lambda: (place(50), dice.random() < 0.5),
        storm.somebody_adjusts: lambda: (place(50), dice.choice(('{"mode":"parallel"}', '{"priority":3}'))),
        storm.somebody_intervenes: lambda: (place(50), dice.choice(STATES)),
        storm.job_changes: lambda: (dice.choice(("one", "two")), dice.random() < 0.5),
        storm.executor_says: lambda: (place(500), dice.choice(SAID)),
        storm.orchestrators_fall_silent: lambda: (dice.random() < 0.2,),
        storm.index_is_built: tuple,
        storm.task_borrows: lambda: (place(50),),
        storm.loans_come_back: lambda: (dice.random() < 0.6,),
        storm.clock_is_doubted: lambda: (dice.choice((0.0, 1.0)),),
    }
    likely = dice.sample(list(events), 5)  # some storms are of rain, others of hail
    for _ in range(steps):
        event = dice.choice([storm.time_passes, storm.time_passes, storm.answers_come, *likely])
        event(*events[event]())
        storm.check()
    return storm
