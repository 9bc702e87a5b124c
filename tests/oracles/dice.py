"""Seeded chance. One seed and one name always give the same throws, on every machine and in every process."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

FUZZ_SEED = int(os.environ.get("FUZZ_SEED", "1987"))
FUZZ_SCALE = float(os.environ.get("FUZZ_SCALE", "1"))
CAMPAIGN_SCALE = float(os.environ.get("FUZZ_SCALE", "0.3"))
"""Of the campaign, which is long, `make test` runs its first part, and `make fuzz` all of it."""


class Dice(Random):
    """`Dice("Europe/London", 3)`: the throws of that name under the seed of this run."""

    def __init__(self, *name: object) -> None:
        super().__init__(":".join(map(str, (FUZZ_SEED, *name))))

    def chance(self, percent: float) -> bool:
        return self.random() * 100 < percent

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        return self.choices([choice for _, choice in choices], [weight for weight, _ in choices])[0]


def scaled(count: int, scale: float = FUZZ_SCALE) -> int:
    """How many of `count` this run tries."""
    return round(count * scale)
