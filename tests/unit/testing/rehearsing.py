"""What the tests of rehearsals share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from itinerary.testing import TestNode

Begin: TypeAlias = Callable[..., TestNode]
"""Begins a rehearsal of an app, with its options; it is closed when the test has ended."""
