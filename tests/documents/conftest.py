"""The app fixture of this folder."""

from __future__ import annotations

import pytest

from itinerary import Itinerary


@pytest.fixture
def app() -> Itinerary:
    """An app without jobs. On the test's clock its store is in memory."""
    return Itinerary(store="memory:", name="here")
