"""Whoever asks a node that cannot keep up is told how far it is behind: its probe and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from itinerary.model.overload import Bottleneck, OverloadExtent
from itinerary.model.stalled import StalledPartition
from itinerary.observe.counters import MetricCounters
from itinerary.observe.health import Health, LastAnswer, NodePhase
from itinerary.observe.metrics import Gauges, NodeMetrics
from itinerary.observe.store_status import StoreStatus, StoreStatusReader

BEHIND = OverloadExtent(1_800_000_000_000_000, 23_000_000, 40, Bottleneck.CPU)


class Running:
    """A node whose loop answers."""

    phase = NodePhase.RUNNING

    def ask(self, answer: Callable[[], None]) -> bool:
        answer()
        return True


class Well(StoreStatusReader):
    """A store in which nothing is undecided."""

    def __init__(self) -> None: ...

    async def look(self) -> StoreStatus:
        return StoreStatus(0, 0, None, None, (), 0, 0, 1)


def health(behind: OverloadExtent | None, *stalled: StalledPartition) -> Health:
    heart = Running()
    return Health(heart, LastAnswer(heart, lambda: 0.0), Well(), lambda: behind, lambda: stalled)


@pytest.mark.spec("U8", "overload says so")
def test_progress_says_how_far_since_when_and_what_is_the_bottleneck() -> None:
    verdict = asyncio.run(health(BEHIND).progress())
    assert not verdict.ok
    assert verdict.why == (
        "this node is 23 s behind since 2027-01-15T08:00:00Z: it lacks CPU (bottleneck: cpu), "
        "and 40 due runs have not started; "
        "add a node, spread the schedules, or run heavy tasks as processes of their own"
    )
    assert asyncio.run(health(None).progress()).ok


@pytest.mark.spec("U8")
def test_progress_names_a_partition_of_records_whose_time_zone_is_unknown() -> None:
    stalled = [StalledPartition("folio", name, 1_800_000_000_000_000, "OSError: down") for name in ("lisbon", "tokyo")]
    verdict = asyncio.run(health(None, *stalled).progress())
    assert not verdict.ok
    assert verdict.why == (
        "nothing of partition lisbon of folio is scheduled since 2027-01-15T08:00:00Z: "
        "its time zone is unknown (OSError: down); correct the timezone function; 1 more partition is stalled"
    )
    assert health(None, *stalled).live().ok
    assert asyncio.run(health(None, *stalled).ready()).ok


@pytest.mark.spec("U8", "overload says so")
def test_a_node_that_is_behind_is_alive_and_ready() -> None:
    assert health(BEHIND).live().ok
    assert asyncio.run(health(BEHIND).ready()).ok


class Figures:
    """What is published of a node that is as far behind as this."""

    def __init__(self, behind: OverloadExtent | None) -> None:
        self.behind = behind

    def gauges(self) -> Gauges:
        return Gauges(behind=self.behind)

    def seen(self) -> StoreStatus | None:
        return None


@pytest.mark.spec("U7", "published")
@pytest.mark.parametrize(("behind", "found"), [(BEHIND, ("cpu", 23.0)), (None, ("none", 0.0))])
def test_the_metric_says_how_far_and_for_lack_of_what(behind: OverloadExtent | None, found: tuple[str, float]) -> None:
    text = NodeMetrics(MetricCounters(1), Figures(behind)).text().decode()
    (family,) = [one for one in text_string_to_metric_families(text) if one.name == "scheduler_behind_seconds"]
    assert [(sample.labels["bottleneck"], sample.value) for sample in family.samples] == [found]
