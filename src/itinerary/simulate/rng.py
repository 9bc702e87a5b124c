"""Dice that are thrown for one purpose each.

A seed has many dice: for the order of callbacks, for the store's fates, for the jobs, for each task. They do not share
numbers. So a change in how often one of them is thrown leaves the others as they were, and a failing seed stays close
to itself while it is being understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["dice_for", "many_of", "one_of", "spread"]

T = TypeVar("T")


def dice_for(seed: int, *purpose: object) -> Random:
    """The dice of a seed for a purpose. Text is hashed by `Random` itself, the same on every machine."""
    return Random(f"{seed}/{'/'.join(map(str, purpose))}")  # noqa: S311 - dice, not secrets


def one_of(dice: Random, choices: Sequence[T]) -> T:
    """One of these."""
    return choices[int(dice.random() * len(choices))]


def many_of(dice: Random, choices: Sequence[T], probability: float = 0.5) -> tuple[T, ...]:
    """Some of these, each with that probability: what swarm testing turns on."""
    return tuple(choice for choice in choices if dice.random() < probability)


def spread(dice: Random, low: float, high: float) -> float:
    """A number between the two, small ones as likely as large ones: 1 to 10 as often as 10 to 100."""
    return float(low * (high / low) ** dice.random())
