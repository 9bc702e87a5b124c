"""An app to declare jobs on, and rehearsals of it that are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from itinerary import Itinerary
from itinerary.testing import TestNode
from tests.unit.testing.rehearsing import Begin


@pytest.fixture
def app() -> Itinerary:
    return Itinerary()


@pytest.fixture
def rehearse() -> Iterator[Begin]:
    begun: list[TestNode] = []

    def begin(app: Itinerary, **options: object) -> TestNode:
        begun.append(TestNode(app, **options))  # type: ignore[arg-type]  # passed on as they come
        return begun[-1]

    yield begin
    for rehearsal in begun:
        rehearsal.close()
