"""An app to declare jobs on, and test nodes of it that are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from itinerary import Itinerary
from itinerary.testing import TestNode
from tests.unit.testing.start_node import Begin


@pytest.fixture
def app() -> Itinerary:
    return Itinerary()


@pytest.fixture
def start_node() -> Iterator[Begin]:
    begun: list[TestNode] = []

    def begin(app: Itinerary, **options: object) -> TestNode:
        begun.append(TestNode(app, **options))  # type: ignore[arg-type]  # passed on as they come
        return begun[-1]

    yield begin
    for node in begun:
        node.close()
