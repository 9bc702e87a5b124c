"""What the tests of test nodes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from itinerary.testing import TestNode

Begin: TypeAlias = Callable[..., TestNode]
"""Begins a test node of an app, with its options; it is closed when the test has ended."""
