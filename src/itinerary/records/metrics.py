"""The metrics of a record scheduler on one node (E11), under the names that are published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from itinerary.records.cycle import Cycle
from itinerary.schedules.durations import SECOND

__all__ = ["FIGURES", "RecordMetrics"]

FIGURES: Final = {
    "scheduler_records_per_cycle": "records that the last cycle queued or sent to be verified, by cycle",
    "scheduler_records_queue_size": "records in the queue of this node",
    "scheduler_records_callback_backlog": "callbacks that wait, due or not",
    "scheduler_records_verification_backlog": "verifications that wait, due or not, or have no result yet",
    "scheduler_records_cycle_duration_seconds": "how long the last cycle took, by cycle",
    "scheduler_records_store_outages_total": "alerts that the event store was away for long",
    "scheduler_records_stalled_partitions": "partitions of this node that are not scheduled for lack of a time zone",
}
"""Every metric and its help text."""


class RecordMetrics:
    """The metrics of one record scheduler on one node."""

    def __init__(self) -> None:
        self.per_cycle: dict[Cycle, int] = dict.fromkeys(Cycle, 0)
        self.duration: dict[Cycle, int] = dict.fromkeys(Cycle, 0)
        """The duration in microseconds."""
        self.queue_size = 0
        self.callback_backlog = 0
        self.verification_backlog = 0
        self.outages = 0
        self.count_stalled: Callable[[], int] = int
        """Returns the number of partitions that are not scheduled because their time zone is unknown."""

    def published(self) -> dict[str, float | dict[str, float]]:
        """Return the metrics by name. Metrics of a cycle are a table by the name of the cycle."""
        return {
            "scheduler_records_per_cycle": {cycle.value: float(count) for cycle, count in self.per_cycle.items()},
            "scheduler_records_queue_size": float(self.queue_size),
            "scheduler_records_callback_backlog": float(self.callback_backlog),
            "scheduler_records_verification_backlog": float(self.verification_backlog),
            "scheduler_records_cycle_duration_seconds": {
                cycle.value: took / SECOND for cycle, took in self.duration.items()
            },
            "scheduler_records_store_outages_total": float(self.outages),
            "scheduler_records_stalled_partitions": float(self.count_stalled()),
        }
