"""The type of the clock fixture, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from itinerary.testing import TestNode

__all__ = ["Clock"]

Clock: TypeAlias = Callable[..., TestNode]
"""The fixture `itinerary_clock`: starts the real node of an app, on a clock that the test moves."""
