"""The simulation of one seed, in this process or in another one.

An `Order` is sent to other processes, so it has the names of objects instead of the objects. The result is text, since
a history is long and only the history of a failed seed is of interest.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

from itinerary.schedules.durations import SECOND
from tests.simulation.world.machines import NewLife
from tests.simulation.world.options import DAY, derive
from tests.simulation.world.world import run_seed

__all__ = ["Lived", "Order", "live"]

_SHOWN: Final = 5
"""The number of violations to print for a failed seed."""


class Order(NamedTuple):
    """The parameters of a simulation."""

    life: str
    """The function that creates a node, as `package.module:name`."""
    mutant: str | None = None
    """A bug to inject into the program, as `package.module:name`."""
    nodes: Sequence[int] | None = None
    """The numbers of nodes, in turn: with (3, 4, 5), seed 0 has three nodes, seed 1 four. None: the seed selects it."""
    hours: int | None = None
    with_history: bool = False
    is_changing: bool = True
    """True if operators change jobs and zone data changes."""


class Lived(NamedTuple):
    """The result of a seed."""

    text: str
    """The text to print."""
    is_fine: bool
    happened: dict[str, int] = {}  # noqa: RUF012 - never changed
    """The number of times that each of the rarer faults occurred."""


def live(order: Order, seed: int) -> Lived:
    """Simulate one seed."""
    new_life: NewLife = _named(order.life)
    mutant: Callable[[], AbstractContextManager[None]] = nullcontext if order.mutant is None else _named(order.mutant)
    runs_for = DAY if order.hours is None else order.hours * 3600 * SECOND
    nodes = None if order.nodes is None else order.nodes[seed % len(order.nodes)]
    options = derive(seed, nodes=nodes, runs_for=runs_for, is_changing=order.is_changing)
    with mutant():
        outcome = run_seed(options, new_life)
    lines = list(outcome.history) if order.with_history else []
    if not outcome.is_fine:
        lines += [str(options), f"seed {outcome.seed} failed: {outcome.count} violations"]
        lines += [f"  {violation}" for violation in outcome.violations[:_SHOWN]]
    return Lived("".join(f"{line}\n" for line in lines), outcome.is_fine, outcome.happened)


def _named(name: str) -> Any:
    """Import an object by its name, `package.module:name`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
