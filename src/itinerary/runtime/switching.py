"""How soon Python's threads take turns, in a process that is a node and nothing else.

Only one thread of a process runs Python code at a time. A thread that wants to run waits until the running one gives
way, which Python asks for after 5 ms. The engine waits for the store many times on the way to a start, and each time it
may find the web server's thread at work: ten such waits are 50 ms. With 0.5 ms they are 5 ms.

`itinerary up` does this. An embedding program decides for itself: the interval is one for the whole process.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["switch_sooner"]

_INTERVAL: Final = 0.0005
"""Seconds after which a thread that runs is asked to give way."""


def switch_sooner() -> None:
    """Have threads take turns ten times as often as usual."""
    sys.setswitchinterval(_INTERVAL)
