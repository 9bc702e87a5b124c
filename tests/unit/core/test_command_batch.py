"""The commands of one iteration, and their order."""

from __future__ import annotations

from itinerary.core.loop.command_batch import CommandBatch
from itinerary.core.loop.commands import Command, Kill, Launch, Stop
from itinerary.model.attempts import Assignment, AttemptKey
from itinerary.model.rows import Ref
from tests.contracts.executors.stage import facts

OLD, NEW = AttemptKey(Ref(1), 0, 1), AttemptKey(Ref(2), 0, 1)
ASSIGNMENT = Assignment(NEW, "auto", {}, facts())


def commands(*, kills: tuple[AttemptKey, ...] = (), stops: tuple[AttemptKey, ...] = ()) -> list[Command]:
    """Return the commands of an iteration that launches `NEW`."""
    out = CommandBatch()
    out.assignments.append(ASSIGNMENT)
    out.kills += kills
    out.stops += stops
    return out.commands(revision=1)


def test_an_attempt_that_is_killed_in_the_iteration_that_launches_it_never_begins() -> None:
    assert commands(kills=(OLD, NEW)) == [Kill([OLD])]


def test_an_attempt_is_launched_before_it_is_asked_to_stop() -> None:
    assert commands(stops=(OLD, NEW)) == [Stop([OLD]), Launch([ASSIGNMENT]), Stop([NEW])]


def test_a_kill_comes_before_the_launch_of_another_attempt() -> None:
    assert commands(kills=(OLD,)) == [Kill([OLD]), Launch([ASSIGNMENT])]
