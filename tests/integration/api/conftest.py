"""What these tests share: an app on a SQLite file, and programs that may not hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from itinerary import Itinerary

T = TypeVar("T")

PATIENCE = 60.0
"""How long a test waits for what must happen, before it says that it did not."""


def run(program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end."""

    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await program

    return asyncio.run(bounded())


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/itinerary.db"


@pytest.fixture
def make_app(store: str) -> Callable[[], Itinerary]:
    """Apps on the same store: a program that is started again makes a new one."""
    return lambda: Itinerary(store=store, name="here", kill_grace="200ms", shutdown_grace_period="5s")
