"""Who was there, from the rows of nodes alone."""

from __future__ import annotations

import pytest

from itinerary.explain.formatting import LocalTime, listed, spoken
from itinerary.explain.node_presence import NodePresence
from itinerary.model.rows import JobNumber, NodeNumber, NodeRow
from itinerary.schedules.durations import SECOND
from itinerary.schedules.zones import UTC
from tests.unit.runtime.world import EPOCH

MINUTE = 60 * SECOND


def node(number: int, joined: int, beat: int, left: int | None = None, about: str = "{}") -> NodeRow:
    """A node that joined, was last heard of and left so many minutes after noon."""
    left_at = None if left is None else EPOCH + left * MINUTE
    name = "abcdef"[number]
    return NodeRow(NodeNumber(number), name, name, about, EPOCH + joined * MINUTE, 1, EPOCH + beat * MINUTE, left_at)


def words(attendance: NodePresence, start: int, end: int) -> str | None:
    absence = attendance.absence(EPOCH + start * MINUTE, EPOCH + end * MINUTE)
    return None if absence is None else absence.words(LocalTime(UTC, EPOCH))


@pytest.mark.spec("U4", "no node from when to when")
def test_between_the_last_sign_of_one_and_the_next_one_that_joined_nobody_was_there() -> None:
    nodes = [node(1, 0, 10, 10), node(2, 5, 20, 40), node(3, 30, 59)]
    attendance = NodePresence(nodes, EPOCH + 59 * MINUTE)
    assert words(attendance, 12, 13) is None, "c was there"
    assert words(attendance, 25, 26) == "no node was heard of from 12:20:00 to 12:30:00"
    assert words(attendance, 45, 46) is None, "d is there still"
    assert words(attendance, -5, -4) == "no node was there before 12:00:00"
    assert [one.name for one in attendance.there_at(EPOCH + 7 * MINUTE)] == ["b", "c"]


@pytest.mark.spec("U4", "no node from when to when")
def test_what_was_before_the_first_that_is_kept_is_not_known_unless_it_was_the_first_of_all() -> None:
    assert words(NodePresence([node(4, 0, 10)], EPOCH + 10 * MINUTE), -5, -4) is None


@pytest.mark.spec("U4", "no node from when to when")
def test_one_that_left_said_so_and_one_that_died_did_not() -> None:
    assert (
        words(NodePresence([node(0, 0, 10, 10)], EPOCH + 60 * MINUTE), 30, 31)
        == "no node has been there since 12:10:00"
    )
    died = NodePresence([node(0, 0, 10, 50)], EPOCH + 60 * MINUTE)
    assert words(died, 30, 31) == "no node has been heard of since 12:10:00"
    assert words(NodePresence([], EPOCH), 0, 1) == "no node is known to have ever been there"


@pytest.mark.spec("U4", "no node from when to when")
def test_a_node_with_rare_heartbeats_is_given_its_time() -> None:
    rare = node(0, 0, 10, about='{"heartbeat_interval": 600000000}')
    assert NodePresence([rare], EPOCH + 45 * MINUTE).present == [rare]
    assert NodePresence([node(0, 0, 10)], EPOCH + 45 * MINUTE).present == []


def test_what_a_node_says_in_another_language_is_not_heard() -> None:
    odd = node(0, 0, 10, about="nonsense")
    attendance = NodePresence([odd], EPOCH + 10 * MINUTE)
    assert attendance.lacking(JobNumber(1)) == []
    assert attendance.store_away(EPOCH, EPOCH + MINUTE) is None
    assert attendance.jump(EPOCH, EPOCH + MINUTE) is None
    assert attendance.name(NodeNumber(9)) == "node number 9 (no longer kept)"


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (0, "0 ms"),
        (52_000, "52 ms"),
        (1_500_000, "1.5 s"),
        (42 * SECOND + 1, "42 s"),
        (60 * SECOND, "1 min"),
        (3_600 * SECOND + 59 * SECOND, "1 h"),
        (8_100 * SECOND, "2 h 15 min"),
        (90_000 * SECOND, "1 d 1 h"),
    ],
)
def test_durations_are_said_in_their_two_largest_units(duration: int, said: str) -> None:
    assert spoken(duration) == said


def test_things_are_listed_as_people_do() -> None:
    assert [listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
