"""The possible outcomes of one call to the store, and the random choice between them.

    FINE        the call arrives, is committed, and is answered
    REFUSED     the call never arrives; the caller gets `StoreUnavailable`
    LOST        the call is committed, but the answer is lost: the caller gets `StoreUnavailable`
    LATE        the caller gets `StoreUnavailable`, but the call arrives some time later
    REPEATED    the call is committed, the store loses track of that, and runs the same work again before it answers
    UNANSWERED  no answer arrives before the caller's deadline: the call never arrived, was committed at once, or is
                committed later, even after the deadline, when the caller has already retried

Every outcome has a duration. `LATE` and `UNANSWERED` are the hardest ones: the call may arrive when the caller has
already retried and continued. The deadline of an unanswered call is about as long as the silence after which a node
counts as dead. The other failed calls end within `patience`.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from random import Random
from typing import Final, NamedTuple

import msgspec

__all__ = ["CALM", "CallFate", "CallFates", "CallLane", "Fortune", "Weather"]


class Fortune(StrEnum):
    """The outcome of a call."""

    FINE = "fine"
    REFUSED = "refused"
    LOST = "lost"
    LATE = "late"
    REPEATED = "repeated"
    UNANSWERED = "unanswered"


class CallLane(StrEnum):
    """A kind of calls. A node has several connections, and one can hang while the others work."""

    HEARTBEATS = "heartbeats"
    STARTS = "starts"
    RESULTS = "results"
    TAKEOVERS = "takeovers"
    SWEEPS = "sweeps"
    READS = "reads"
    RECORDS = "records"


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """The probability of each outcome, and the durations in seconds."""

    latency: float = 0.002
    """The usual duration of a call, both ways together."""
    slow: float = 0.0
    """The probability that a call takes up to `slow_for`."""
    slow_for: float = 10.0
    refused: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    patience: float = 5.0
    """The longest wait of a caller before `StoreUnavailable`."""
    heard_after: float = 0.25
    """The longest delay of a notification."""
    unanswered: float = 0.0
    deadline: float = 30.0
    """The wait of a caller for an unanswered call, before the caller cuts the connection."""

    @property
    def slowest(self) -> float:
        """The longest duration of an answered call."""
        return max(self.latency, self.slow_for if self.slow else 0.0)

    @property
    def longest(self) -> float:
        """The longest wait of a caller for one call."""
        return self.slowest + max(self.patience, self.deadline)


CALM: Final = Weather()
_NEVER: Final = inf


class CallFate(NamedTuple):
    """The outcome of one call, decided before the call is made. Times are in seconds."""

    fortune: Fortune
    arrives_after: float
    answered_after: float
    """The time since the arrival; for a late or unanswered call, since the caller made it."""


class CallFates:
    """The random choice of the outcome of each call."""

    def __init__(self, weather: Weather, dice: Random, hang_dice: Random | None = None) -> None:
        """Create the choice. `hang_dice` select the calls that are never answered."""
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

    def throw(self) -> CallFate:
        """Return the outcome of the next call."""
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
            return CallFate(fortune, there, latency - there)
        if fortune is Fortune.LATE:
            gone_after = weather.patience * random()
            return CallFate(fortune, gone_after + weather.patience * 2 * random(), gone_after)
        return CallFate(fortune, there, weather.patience * random())

    def unanswered(self) -> CallFate:
        """Return the outcome of a call that is never answered."""
        random, weather = self._hang_dice.random, self.weather
        point, deadline = random() * 3, weather.deadline
        arrives_after = _NEVER if point < 1 else weather.latency * random() if point < 2 else deadline * 2 * random()
        return CallFate(Fortune.UNANSWERED, arrives_after, deadline)

    def _fortune(self) -> Fortune:
        if self._total:
            point = self._dice.random()
            if point < self._total:
                return next(fortune for bound, fortune in self._bounds if point < bound)
        return Fortune.FINE

    def heard_after(self) -> float:
        """Return the delay of a commit's notification."""
        return self.weather.heard_after * self._dice.random()

    def fraction(self) -> float:
        """Return a random number between 0 and 1."""
        return self._dice.random()

    def still_commits(self) -> bool:
        """True if a call reaches the store although its process has crashed."""
        return self._dice.random() < 0.5
