"""What can become of one call to the store, and the dice that decide it.

    FINE        it arrives, is committed, and answered
    REFUSED     it never arrives; the caller is told that the store is away
    LOST        it is committed, and the answer is lost: the caller is told that the store is away
    LATE        the caller is told that the store is away, and the call arrives after all, some time later
    REPEATED    it is committed, the store itself loses track of that, and runs the same work again before it answers
    UNANSWERED  nothing is heard of it until the caller's deadline cuts the connection: it never arrived, was committed
                at once, or is still with the store and is committed after the deadline, when the caller has repeated it

Each has its time under way. `LATE` and `UNANSWERED` are the cruel ones: by then the caller has asked again, and gone
on. The deadline of an unanswered call is long, as long as a node's silence; that of the others is the `patience`.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from random import Random
from typing import Final, NamedTuple

import msgspec

__all__ = ["CALM", "Fate", "Fates", "Fortune", "Lane", "Weather"]


class Fortune(StrEnum):
    """What becomes of a call."""

    FINE = "fine"
    REFUSED = "refused"
    LOST = "lost"
    LATE = "late"
    REPEATED = "repeated"
    UNANSWERED = "unanswered"


class Lane(StrEnum):
    """Calls of one kind. A node has several connections, and one of them can hang while the others work."""

    HEARTBEATS = "heartbeats"
    STARTS = "starts"
    RESULTS = "results"
    TAKEOVERS = "takeovers"
    SWEEPS = "sweeps"
    READS = "reads"
    RECORDS = "records"


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """How likely each fate is, and how long things take, in seconds."""

    latency: float = 0.002
    """Usually: half of it there, half of it back."""
    slow: float = 0.0
    """The probability of a call that takes up to `slow_for`."""
    slow_for: float = 10.0
    refused: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    patience: float = 5.0
    """How long a caller waits at most before it is told that the store is away."""
    heard_after: float = 0.25
    """How long news takes at most."""
    unanswered: float = 0.0
    deadline: float = 30.0
    """How long a caller waits for a call that is never answered, before it cuts the connection."""

    @property
    def slowest(self) -> float:
        """The longest that a call which is answered can take."""
        return max(self.latency, self.slow_for if self.slow else 0.0)

    @property
    def longest(self) -> float:
        """The longest that a caller can wait for one call."""
        return self.slowest + max(self.patience, self.deadline)


CALM: Final = Weather()
_NEVER: Final = inf


class Fate(NamedTuple):
    """What becomes of one call, decided before it is made. Times in seconds."""

    fortune: Fortune
    arrives_after: float
    answered_after: float
    """From when it arrived, or, if it is not heard of again, from when it was made."""


class Fates:
    """The dice behind a store."""

    def __init__(self, weather: Weather, dice: Random, hang_dice: Random | None = None) -> None:
        """`hang_dice` decide which calls are never answered."""
        self.weather = weather
        self._dice = dice
        self._hang_dice = dice if hang_dice is None else hang_dice
        weights = (
            (weather.refused, Fortune.REFUSED),
            (weather.lost, Fortune.LOST),
            (weather.late, Fortune.LATE),
            (weather.repeated, Fortune.REPEATED),
        )
        total = 0.0
        self._bounds: list[tuple[float, Fortune]] = []
        for weight, fortune in weights:
            if weight:
                total += weight
                self._bounds.append((total, fortune))
        self._total = total
        assert total <= 1.0, "probabilities add up to one at most"

    def throw(self) -> Fate:
        """The fate of the next call."""
        random = self._dice.random
        weather = self.weather
        if weather.unanswered and self._hang_dice.random() < weather.unanswered:
            return self.unanswered()
        latency = weather.latency
        if weather.slow and random() < weather.slow:
            latency = latency + random() * (weather.slow_for - latency)
        there = latency * random()
        fortune = self._fortune()
        if fortune is Fortune.FINE or fortune is Fortune.REPEATED:
            return Fate(fortune, there, latency - there)
        if fortune is Fortune.LATE:
            gone_after = weather.patience * random()
            return Fate(fortune, gone_after + weather.patience * 2 * random(), gone_after)
        return Fate(fortune, there, weather.patience * random())

    def unanswered(self) -> Fate:
        """The fate of a call that is never answered."""
        random, weather = self._hang_dice.random, self.weather
        point, deadline = random() * 3, weather.deadline
        arrives_after = _NEVER if point < 1 else weather.latency * random() if point < 2 else deadline * 2 * random()
        return Fate(Fortune.UNANSWERED, arrives_after, deadline)

    def _fortune(self) -> Fortune:
        if self._total:
            point = self._dice.random()
            if point < self._total:
                return next(fortune for bound, fortune in self._bounds if point < bound)
        return Fortune.FINE

    def heard_after(self) -> float:
        """How long it takes until those who watch hear of a commit."""
        return self.weather.heard_after * self._dice.random()

    def fraction(self) -> float:
        """A part of something."""
        return self._dice.random()

    def still_commits(self) -> bool:
        """Whether a call that was under way when its process crashed reaches the store."""
        return self._dice.random() < 0.5
