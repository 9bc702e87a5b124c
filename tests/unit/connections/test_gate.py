"""The gate: how many connections there may be, and which one makes room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.connections.gate import Gate


class Line(asyncio.Transport):
    """A connection from an address, without a socket."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 50_000)})
        self.is_cut = False

    def abort(self) -> None:
        self.is_cut = True


class House:
    """A gate, and the clients that it refused."""

    def __init__(self, in_all: int, per_client: int, **options: Any) -> None:
        self.refused: list[str] = []
        self.gate = Gate(in_all, per_client, self.refused.append, **options)

    def come(self, address: str) -> Line | None:
        if not self.gate.make_room(address):
            return None
        line = Line(address)
        self.gate.enter(line)
        return line


def test_at_the_limit_the_connection_that_has_waited_longest_makes_room() -> None:
    house = House(2, 2)
    first, second = house.come("10.0.0.1"), house.come("10.0.0.2")
    assert first is not None
    assert second is not None
    house.gate.wait(first)  # it has begun to wait again, after the second one
    assert house.come("10.0.0.3") is not None
    assert (first.is_cut, second.is_cut) == (False, True)
    assert (len(house.gate), house.refused) == (2, ["10.0.0.2"])


def test_a_connection_at_work_makes_no_room() -> None:
    house = House(2, 2)
    lines = [house.come("10.0.0.1"), house.come("10.0.0.2")]
    for line in lines:
        assert line is not None
        house.gate.work(line)
    assert house.come("10.0.0.3") is None
    assert house.refused == ["10.0.0.3"]
    assert lines[0] is not None
    house.gate.leave(lines[0])
    assert house.come("10.0.0.3") is not None


def test_one_client_makes_room_among_its_own_and_leaves_others_alone() -> None:
    house = House(10, 2)
    other = house.come("10.0.0.9")
    own = [house.come("10.0.0.1") for _ in range(5)]
    assert other is not None
    assert not other.is_cut
    assert [line is not None and line.is_cut for line in own] == [True, True, True, False, False]
    assert len(house.gate) == 3


def test_addresses_of_one_ipv6_network_are_one_client() -> None:
    house = House(10, 2)
    lines = [house.come(f"2001:db8::{number}") for number in range(1, 5)]
    assert [line is not None and line.is_cut for line in lines] == [True, True, False, False]


def test_a_proxy_has_no_limit_of_its_own() -> None:
    house = House(10, 2, is_shared=lambda address: address == "10.0.0.1")
    assert all(house.come("10.0.0.1") for _ in range(10))
    assert house.refused == []


@pytest.mark.parametrize("rounds", [1, 1_000])
def test_nothing_is_kept_of_connections_that_have_left(rounds: int) -> None:
    house = House(4, 2)
    for number in range(rounds):
        line = house.come(f"10.0.{number // 250}.{number % 250}")
        assert line is not None
        house.gate.leave(line)
        house.gate.leave(line)
        house.gate.wait(line)
    assert (len(house.gate), house.refused) == (0, [])
    assert not house.gate._counts
    assert not house.gate._waiting
    assert not house.gate._waiting_of
