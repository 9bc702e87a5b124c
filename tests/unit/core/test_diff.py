"""What comparisons and backfills enumerate: as far as they need, however long the window is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

import pytest

from itinerary.core.recovery.backfill import due_between
from itinerary.core.timeline.diff import INSTANTS_MAX, compare
from itinerary.errors import WindowError
from itinerary.schedules import every
from itinerary.schedules.custom import custom, schedule
from tests.unit.core.timelines import NOON, SECOND, Book

DAY = 86_400 * SECOND


@dataclass(frozen=True)
class Seconds:
    """Every second, and an error for whoever asks for more than a day at once."""

    def next_after(self, t: datetime) -> datetime:
        return t + timedelta(seconds=1)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        assert end - start <= timedelta(days=1), f"{end - start} is too much"
        for number in range(int((end - start).total_seconds())):
            yield start + timedelta(seconds=number)

    def to_json(self) -> None:
        return None

    @classmethod
    def from_json(cls, _: object) -> Self:
        return cls()


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the kind for one test."""
    monkeypatch.setattr(sys.modules["itinerary.schedules.custom"], "_registered", {})
    schedule("seconds")(Seconds)


@pytest.mark.spec("Q4", "windows")
def test_a_comparison_over_a_long_window_enumerates_no_further_than_it_lists() -> None:
    book = Book()
    job = book.job("often", custom(Seconds()))  # type: ignore[arg-type]  # the decorator gives it its kind
    book.version(job, every("2s"), NOON + DAY)
    found = compare(book.jobs[job], book.entries, book.entries[-1].revision, window_for=145_000 * DAY)
    assert len(found.added) + len(found.removed) + len(found.kept) == INSTANTS_MAX
    assert found.end == NOON + DAY + INSTANTS_MAX * SECOND


def test_a_rare_schedule_is_compared_over_the_whole_window() -> None:
    book = Book()
    job = book.job("rare", every("30d"))
    book.version(job, every("60d"), NOON + DAY)
    found = compare(book.jobs[job], book.entries, book.entries[-1].revision, window_for=600 * DAY)
    assert found.end == NOON + 601 * DAY
    assert (len(found.added), len(found.removed), len(found.kept)) == (0, 10, 10)


@pytest.mark.spec("Q4", "windows")
def test_a_backfill_of_a_long_range_is_refused_as_soon_as_it_has_too_many_instants() -> None:
    book = Book()
    job = book.job("often", custom(Seconds()))  # type: ignore[arg-type]  # the decorator gives it its kind
    with pytest.raises(WindowError, match="more than 100000 instants"):
        due_between(book.timeline, job, NOON, NOON + 3_660 * DAY)
