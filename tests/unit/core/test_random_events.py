"""Whatever happens, in whatever order (O1, L9, N2).

Random events come to a node in random order, and answers come late. Nothing may raise out of the loop; every audit
trail is legal; nothing is launched without a durable row, or twice (the script looks); and when everybody has calmed
down, nothing is left: slots, shares, writes and questions that were on their way have all come back.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from itinerary.core.loop import commands as c
from itinerary.model.attempts import Outcome
from itinerary.model.states import OccurrenceState
from tests.unit.core.scripted import Act
from tests.unit.core.storms import ACTS, ANSWERS, CHOICES, KEPT, SAID, STATES, Storm, blow

definitions = st.fixed_dictionaries({key: st.sampled_from(values) for key, values in CHOICES.items()})
acts = st.lists(st.sampled_from(ACTS), min_size=1, max_size=3)
places = st.integers(0, 50)


@pytest.mark.spec("O1")
@pytest.mark.spec("N2")
@pytest.mark.parametrize("seed", range(40))
def test_a_storm_leaves_nothing_behind(seed: int) -> None:
    blow(Random(seed), steps=120).calm()  # noqa: S311 - the same dice each time


class AnyOrder(RuleBasedStateMachine):
    """The same, by hypothesis: it finds the shortest way into trouble."""

    @initialize(
        one=definitions,
        two=definitions,
        own=st.integers(0, 2),
        a=acts,
        b=acts,
        ready=st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3),
        hook=st.sampled_from(ACTS),
    )
    def begin(self, one: Any, two: Any, own: int, a: list[Act], b: list[Act], ready: list[Act], hook: Act) -> None:
        self.storm = Storm(one, two, own)
        self.storm.acts(a, b, ready, hook)
        self.storm.world.run_to(0.1)

    @rule(seconds=st.sampled_from((0.0, 0.5, 1.0)))
    def a_moment_passes(self, seconds: float) -> None:
        self.storm.time_passes(seconds)

    @rule(seconds=st.sampled_from((2.0, 3.0, 5.0)))
    def time_passes(self, seconds: float) -> None:
        self.storm.time_passes(seconds)

    @rule(kinds=st.sets(st.sampled_from(KEPT)))
    def answers_are_late(self, kinds: set[type[c.Command]]) -> None:
        self.storm.answers_are_late(tuple(kinds))

    @rule()
    def answers_come(self) -> None:
        self.storm.answers_come()

    @rule(place=places, is_durable=st.booleans())
    def somebody_cancels(self, place: int, is_durable: bool) -> None:
        self.storm.somebody_cancels(place, is_durable)

    @rule(place=places, overrides=st.sampled_from(('{"mode":"parallel"}', '{"priority":3}')))
    def somebody_adjusts(self, place: int, overrides: str) -> None:
        self.storm.somebody_adjusts(place, overrides)

    @rule(place=places, to=st.sampled_from(STATES))
    def somebody_intervenes(self, place: int, to: OccurrenceState | None) -> None:
        self.storm.somebody_intervenes(place, to)

    @rule(name=st.sampled_from(("one", "two")), is_heard=st.booleans())
    def a_job_changes(self, name: str, is_heard: bool) -> None:
        self.storm.job_changes(name, is_heard)

    @rule(place=places, said=st.sampled_from(SAID))
    def an_executor_says_something(self, place: int, said: Outcome | OccurrenceState) -> None:
        self.storm.executor_says(place, said)

    @rule(is_silent=st.booleans())
    def orchestrators_fall_silent(self, is_silent: bool) -> None:
        self.storm.orchestrators_fall_silent(is_silent)

    @rule(place=places)
    def a_task_borrows(self, place: int) -> None:
        self.storm.task_borrows(place)

    @rule(commits=st.booleans())
    def loans_come_back(self, commits: bool) -> None:
        self.storm.loans_come_back(commits)

    @invariant()
    def all_is_well(self) -> None:
        if hasattr(self, "storm"):
            self.storm.check()

    def teardown(self) -> None:
        if hasattr(self, "storm"):
            self.storm.calm()


TestAnyOrder = pytest.mark.spec("O1")(AnyOrder.TestCase)
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
