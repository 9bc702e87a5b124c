"""What can become of one call to the store, and the dice that decide it.

    FINE        it arrives, is committed, and answered
    REFUSED     it never arrives; the caller is told that the store is away
    LOST        it is committed, and the answer is lost: the caller is told that the store is away
    LATE        the caller is told that the store is away, and the call arrives after all, some time later
    REPEATED    it is committed, the store itself loses track of that, and runs the same work again before it answers

Each has its time under way. `LATE` is the cruel one: by then the caller has asked again, and gone on.
"""

from __future__ import annotations

from enum import StrEnum
from random import Random
from typing import Final, NamedTuple

import msgspec

__all__ = ["CALM", "Fate", "Fates", "Fortune", "Weather"]


class Fortune(StrEnum):
    """What becomes of a call."""

    FINE = "fine"
    REFUSED = "refused"
    LOST = "lost"
    LATE = "late"
    REPEATED = "repeated"


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

    @property
    def slowest(self) -> float:
        """The longest that a call which is answered can take."""
        return max(self.latency, self.slow_for if self.slow else 0.0)


CALM: Final = Weather()


class Fate(NamedTuple):
    """What becomes of one call, decided before it is made. Times in seconds."""

    fortune: Fortune
    arrives_after: float
    answered_after: float
    """From when it arrived, or, if it is not heard of again, from when it was made."""


class Fates:
    """The dice behind a store."""

    def __init__(self, weather: Weather, dice: Random) -> None:
        self.weather = weather
        self._dice = dice
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
