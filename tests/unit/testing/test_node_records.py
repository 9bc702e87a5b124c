"""Records in a test node: no virtual time passes while a function of the program runs in a thread (U11)."""

from __future__ import annotations

import time

import pytest

from itinerary import Itinerary
from itinerary.records import RecordBatch
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")


def test_a_slow_time_zone_function_and_a_slow_handler_take_no_time_of_the_clock(
    app: Itinerary, start_node: Begin
) -> None:
    """Both would run into their timeouts if the clock went on: 10 s, and one minute."""
    handled: list[tuple[str, int]] = []

    def zone_of(hotel: str) -> str:
        time.sleep(0.2)  # a plain function takes real time
        return "Europe/Lisbon"

    desk = app.records(
        "folio",
        partition_by="hotel",
        timezone=zone_of,
        enable_early_morning_skip=False,
        startup_delay=0,
        handler_timeout="1m",
    )

    @desk.handler
    def work(batch: RecordBatch) -> None:
        time.sleep(0.2)
        handled.append((batch.partition, batch.attempt))

    run = start_node(app)
    run.call(desk.append("RecordCreated", record="F-1", hotel="lisbon"))
    run.advance(minutes=5)
    assert handled == [("lisbon", 1)]
    assert not run.logged("records.no_zone")
    assert not run.logged("records.batch_failed")
