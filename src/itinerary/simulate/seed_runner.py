"""Living through one seed as somebody has asked for it: in this process, or in another one.

What is asked for goes from process to process, so it says everything by name; and what comes back is text, since a
history is long and nobody wants it but for the seed that failed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

from itinerary.schedules.durations import SECOND
from itinerary.simulate.machines import NewLife
from itinerary.simulate.options import DAY, derive
from itinerary.simulate.world import run_seed

__all__ = ["Lived", "Order", "live"]

_SHOWN: Final = 5
"""Violations that are printed of a failing seed."""


class Order(NamedTuple):
    """How seeds are to be lived through."""

    life: str
    """The node, `package.module:thing`."""
    mutant: str | None = None
    """A fault that is put into the program, named like that."""
    nodes: Sequence[int] | None = None
    """How many, in turn: of (3, 4, 5), seed 0 has three nodes, seed 1 four. None: what the seed has drawn."""
    hours: int | None = None
    with_history: bool = False
    is_changing: bool = True
    """People change jobs."""


class Lived(NamedTuple):
    """What became of a seed."""

    text: str
    """What there is to say about it."""
    is_fine: bool
    happened: dict[str, int] = {}  # noqa: RUF012 - nobody changes it
    """How often which of the rarer faults has struck."""


def live(order: Order, seed: int) -> Lived:
    """One seed."""
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
    """Something by its name, `package.module:thing`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
