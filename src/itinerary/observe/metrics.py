"""Metrics in the format of Prometheus (U7, E11): every name, type, labels and help text.

Each node has its own registry, so two nodes in one process do not mix. Metrics of the node are counted on it
(`counters`): sum them over nodes. Metrics of the store are read from it (`store_status`) and are the same on all nodes:
take their maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, Literal, Protocol

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from itinerary.model.overload import OverloadExtent
from itinerary.model.stalled import StalledPartition
from itinerary.observe.counters import Histogram, MetricCounters
from itinerary.observe.store_status import StoreStatus
from itinerary.schedules.durations import SECOND

__all__ = ["CONTENT_TYPE", "METRICS", "Described", "Gauges", "NodeMetrics", "Sources"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Described(msgspec.Struct, frozen=True):
    """The name, type, labels and help text of a metric."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    says: str


METRICS: Final = (
    Described("scheduler_jobs_running_total", "gauge", (), "occurrences that run on this node"),
    Described(
        "scheduler_jobs_retrying_total",
        "gauge",
        (),
        "occurrences that began on this node and wait: for a retry, a requirement, a limit",
    ),
    Described(
        "scheduler_jobs_in_queue_total",
        "gauge",
        (),
        "occurrences that are due and have not begun, in the whole store: for overlap, a slot or a limit",
    ),
    Described("scheduler_jobs_paused_total", "gauge", (), "jobs that are paused, in the whole store"),
    Described(
        "scheduler_job_execution_duration_seconds", "histogram", ("job",), "from the start of an occurrence to its end"
    ),
    Described(
        "scheduler_task_execution_duration_seconds", "histogram", ("job", "task"), "how long an attempt of a task took"
    ),
    Described("scheduler_task_attempts_total", "counter", ("job", "task", "status"), "attempts that have ended"),
    Described(
        "scheduler_job_occurrences_total", "counter", ("job", "status"), "occurrences that have ended, by how they did"
    ),
    Described("scheduler_recovery_runs_total", "counter", ("job", "strategy"), "runs that make up for missed instants"),
    Described("scheduler_start_lateness_seconds", "histogram", (), "from when an occurrence was due to its start"),
    Described(
        "scheduler_oldest_undecided_seconds",
        "gauge",
        (),
        "for how long something has been due and undecided, in the whole store; 0: nothing is",
    ),
    Described(
        "scheduler_behind_seconds",
        "gauge",
        ("bottleneck",),
        "how far this node is behind what is due, and for lack of what; 0 with bottleneck none: it keeps up",
    ),
    Described("scheduler_inbox_depth", "gauge", (), "messages that wait for the loop of this node"),
    Described("scheduler_syncer_backlog", "gauge", (), "updates of this node that are not written yet"),
    Described("scheduler_nodes", "gauge", (), "nodes that are there"),
    Described("scheduler_clock_jumps_total", "counter", (), "jumps of this node's time, standstills included"),
    Described("scheduler_alerts_total", "counter", ("outcome",), "alerts of this node: delivered, retried, given_up"),
    Described(
        "scheduler_http_refused_total",
        "counter",
        ("server", "status"),
        "HTTP requests and connections that this node refused, by the status of the answer; none: without an answer",
    ),
    Described("scheduler_records_per_cycle", "gauge", ("desk", "cycle"), "records that the last cycle took up"),
    Described("scheduler_records_queue_size", "gauge", ("desk",), "records in the queue of this node"),
    Described("scheduler_records_callback_backlog", "gauge", ("desk",), "callbacks that wait, due or not"),
    Described("scheduler_records_verification_backlog", "gauge", ("desk",), "verifications that have no result yet"),
    Described(
        "scheduler_records_cycle_duration_seconds", "gauge", ("desk", "cycle"), "how long the last cycle of a desk took"
    ),
    Described(
        "scheduler_records_store_outages_total", "counter", ("desk",), "alerts that the event store was away for long"
    ),
    Described(
        "scheduler_records_stalled_partitions",
        "gauge",
        ("desk",),
        "partitions of this node that are not scheduled, since their time zone is unknown",
    ),
)
"""Every metric, in the order of publication."""

_BY_NAME: Final = {metric.name: metric for metric in METRICS}


class Gauges(msgspec.Struct, frozen=True):
    """The current values of a node, readable from any thread."""

    inbox_depth: int = 0
    syncer_backlog: int = 0
    clock_jumps: int = 0
    alerts: Mapping[str, int] = msgspec.field(default_factory=dict)
    desks: Mapping[str, Mapping[str, float | Mapping[str, float]]] = msgspec.field(default_factory=dict)
    """The metrics of each record scheduler, by name; metrics of a cycle also by the name of the cycle."""
    behind: OverloadExtent | None = None
    """How far the node is behind; None: not behind."""
    stalled: tuple[StalledPartition, ...] = ()
    """Partitions of records that this node does not schedule because their time zone is unknown."""


class Sources(Protocol):
    """The source of the values that are not counted."""

    def gauges(self) -> Gauges:
        """Return the current values of the node."""

    def seen(self) -> StoreStatus | None:
        """Return the last known status of the store; None if it has not answered."""


class NodeMetrics(Collector):
    """The metrics of one node."""

    def __init__(self, tally: MetricCounters, sources: Sources) -> None:
        self._tally, self._sources = tally, sources
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry needs no description before the first collection."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        tally, gauges, seen = self._tally.counted(), self._sources.gauges(), self._sources.seen()
        yield _gauge("scheduler_jobs_running_total", [((), tally.running)])
        yield _gauge("scheduler_jobs_retrying_total", [((), tally.retrying)])
        if seen is not None:
            yield _gauge("scheduler_jobs_in_queue_total", [((), seen.in_queue)])
            yield _gauge("scheduler_jobs_paused_total", [((), seen.paused)])
        jobs, tasks = tally.jobs.items(), tally.tasks.items()
        yield _histogram(
            "scheduler_job_execution_duration_seconds",
            (((job,), one.durations) for job, one in jobs if any(one.durations.counts)),
        )
        yield _histogram(
            "scheduler_task_execution_duration_seconds",
            ((task, one.durations) for task, one in tasks if any(one.durations.counts)),
        )
        yield _counter(
            "scheduler_task_attempts_total",
            (((*task, status), count) for task, one in tasks for status, count in one.statuses.items()),
        )
        yield _counter(
            "scheduler_job_occurrences_total",
            (((job, status), count) for job, one in jobs for status, count in one.statuses.items()),
        )
        yield _counter(
            "scheduler_recovery_runs_total",
            (((job, strategy), count) for job, one in jobs for strategy, count in one.recoveries.items()),
        )
        yield _histogram("scheduler_start_lateness_seconds", [((), tally.lateness)])
        if seen is not None:
            yield _gauge("scheduler_oldest_undecided_seconds", [((), seen.undecided_for / SECOND)])
        behind = gauges.behind
        held_up = ("none", 0.0) if behind is None else (behind.bottleneck.value, behind.by / SECOND)
        yield _gauge("scheduler_behind_seconds", [((held_up[0],), held_up[1])])
        yield _gauge("scheduler_inbox_depth", [((), gauges.inbox_depth)])
        yield _gauge("scheduler_syncer_backlog", [((), gauges.syncer_backlog)])
        if seen is not None:
            yield _gauge("scheduler_nodes", [((), seen.nodes)])
        yield _counter("scheduler_clock_jumps_total", [((), gauges.clock_jumps)])
        yield _counter("scheduler_alerts_total", (((outcome,), count) for outcome, count in gauges.alerts.items()))
        yield _counter("scheduler_http_refused_total", tally.refusals.items())
        yield from _of_desks(gauges.desks)


def _of_desks(desks: Mapping[str, Mapping[str, float | Mapping[str, float]]]) -> Iterator[Metric]:
    names = dict.fromkeys(name for published in desks.values() for name in published)
    for name in names:
        values: dict[tuple[str, ...], float] = {}
        for desk, published in desks.items():
            value = published[name]
            if isinstance(value, Mapping):
                values |= {(desk, cycle): one for cycle, one in value.items()}
            else:
                values[desk,] = value
        yield (_counter if _BY_NAME[name].kind == "counter" else _gauge)(name, values.items())


def _gauge(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    described = _BY_NAME[name]
    family = GaugeMetricFamily(name, described.says, labels=described.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _counter(name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    described = _BY_NAME[name]
    family = CounterMetricFamily(name, described.says, labels=described.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _histogram(name: str, values: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    described = _BY_NAME[name]
    family = HistogramMetricFamily(name, described.says, labels=described.labels)
    for labels, one in values:
        bounds = [*(f"{bound / SECOND:g}" for bound in one.buckets), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(one.counts), strict=True)), one.total / SECOND)
    return family
