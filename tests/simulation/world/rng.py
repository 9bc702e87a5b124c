"""Random generators, each with a single purpose.

A seed has many independent generators: for the order of callbacks, the outcomes of store calls, the jobs, and each
task. If the code uses one of them more or less often, the others stay the same. So a failed seed changes little while
an engineer debugs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["dice_for", "many_of", "one_of", "spread"]

T = TypeVar("T")


def dice_for(seed: int, *purpose: object) -> Random:
    """Return the generator of a seed for a purpose. `Random` hashes text the same way on every machine."""
    return Random(f"{seed}/{'/'.join(map(str, purpose))}")  # noqa: S311 - no secrets


def one_of(dice: Random, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(dice.random() * len(choices))]


def many_of(dice: Random, choices: Sequence[T], probability: float = 0.5) -> tuple[T, ...]:
    """Return some of the choices, each with the same probability, as in swarm testing."""
    return tuple(choice for choice in choices if dice.random() < probability)


def spread(dice: Random, low: float, high: float) -> float:
    """Return a number between both, uniform on a log scale: 1 to 10 as often as 10 to 100."""
    return float(low * (high / low) ** dice.random())
