"""The metrics that are published: names, types and labels as promised, and no others."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from itinerary.core.loop.events import LoadSampled
from itinerary.model.rows import JobNumber
from itinerary.observe.counters import MetricCounters
from itinerary.observe.metrics import METRICS, Gauges, NodeMetrics
from itinerary.observe.overdue import OverdueInstant
from itinerary.observe.store_status import StoreStatus
from itinerary.records.metrics import FIGURES, RecordMetrics
from itinerary.schedules.durations import SECOND
from tests.docs.pages import code, reference
from tests.unit.observe.test_counters import AT, life

PROMISED = {
    "scheduler_jobs_running_total": ("gauge", ()),
    "scheduler_jobs_in_queue_total": ("gauge", ()),
    "scheduler_jobs_paused_total": ("gauge", ()),
    "scheduler_job_execution_duration_seconds": ("histogram", ("job",)),
    "scheduler_task_execution_duration_seconds": ("histogram", ("job", "task")),
    "scheduler_task_attempts_total": ("counter", ("job", "task", "status")),
    "scheduler_job_occurrences_total": ("counter", ("job", "status")),
    "scheduler_recovery_runs_total": ("counter", ("job", "strategy")),
    "scheduler_start_lateness_seconds": ("histogram", ()),
    "scheduler_oldest_undecided_seconds": ("gauge", ()),
    "scheduler_inbox_depth": ("gauge", ()),
    "scheduler_syncer_backlog": ("gauge", ()),
    "scheduler_nodes": ("gauge", ()),
    "scheduler_clock_jumps_total": ("counter", ()),
}
"""As SPEC U7 has them."""


class Still:
    """A node that is as it is."""

    def gauges(self) -> Gauges:
        return Gauges(3, 4, 5, {"delivered": 2}, {"folio": RecordMetrics().published()})

    def seen(self) -> StoreStatus | None:
        oldest = OverdueInstant(JobNumber(1), AT, AT, None)
        return StoreStatus(AT + 7 * SECOND, AT, oldest, "etl", (oldest,), 6, 8, 9)


def published() -> dict[str, float]:
    tally = MetricCounters(10)
    tally.handle([*life('a "job"\nof two lines'), LoadSampled(1, 2)])
    families = text_string_to_metric_families(NodeMetrics(tally, Still()).text().decode())
    return {
        sample.name + "".join(f",{key}={value}" for key, value in sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.spec("U7", "names")
def test_the_metrics_are_called_what_was_promised_and_have_the_types_and_labels() -> None:
    ours = {metric.name: (metric.kind, metric.labels) for metric in METRICS}
    assert {name: ours.get(name) for name in PROMISED} == PROMISED


@pytest.mark.spec("E11", "metrics")
def test_every_figure_of_a_desk_is_a_metric() -> None:
    assert set(FIGURES) <= {metric.name for metric in METRICS}
    assert published()["scheduler_records_queue_size,desk=folio"] == 0
    assert published()["scheduler_records_per_cycle,cycle=pickup,desk=folio"] == 0


@pytest.mark.spec("U7", "published")
def test_every_metric_is_published_with_its_value() -> None:
    found = published()
    job = 'job=a "job"\nof two lines'
    assert found["scheduler_jobs_running_total"] == 1
    assert found["scheduler_jobs_in_queue_total"] == 6
    assert found["scheduler_jobs_paused_total"] == 8
    assert found["scheduler_oldest_undecided_seconds"] == 7
    assert (found["scheduler_inbox_depth"], found["scheduler_syncer_backlog"]) == (3, 4)
    assert (found["scheduler_nodes"], found["scheduler_clock_jumps_total"]) == (9, 5)
    assert found[f"scheduler_job_occurrences_total,{job},status=completed"] == 1
    assert found[f"scheduler_task_attempts_total,{job},status=success,task=main"] == 1
    assert found[f"scheduler_job_execution_duration_seconds_bucket,{job},le=1"] == 0
    assert found[f"scheduler_job_execution_duration_seconds_bucket,{job},le=5"] == 1
    assert found[f"scheduler_job_execution_duration_seconds_sum,{job}"] == 3
    assert found["scheduler_start_lateness_seconds_count"] == 1


@pytest.mark.spec("U7", "documented")
def test_every_metric_is_in_the_reference_with_its_type_and_labels() -> None:
    rows = reference("metrics").table("Metric", "Type", "Labels", "Meaning")
    assert [(code(name), kind, code(labels)) for name, kind, labels, _ in rows] == [
        (metric.name, metric.kind, ", ".join(metric.labels) or "none") for metric in METRICS
    ]
