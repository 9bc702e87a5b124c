"""An app to declare jobs on, and rehearsals of it that are closed after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from itinerary import Itinerary
from itinerary.testing import Rehearsal
from tests.unit.testing.rehearsing import Begin


@pytest.fixture
def app() -> Itinerary:
    return Itinerary()


@pytest.fixture
def rehearse() -> Iterator[Begin]:
    begun: list[Rehearsal] = []

    def begin(app: Itinerary, **options: object) -> Rehearsal:
        begun.append(Rehearsal(app, **options))  # type: ignore[arg-type]  # passed on as they come
        return begun[-1]

    yield begin
    for rehearsal in begun:
        rehearsal.close()
