"""The durations of tasks, as far as they are known before a run.

    --takes JOB=30s        given by the user: the whole job, with all its tasks
    history                the median of the last runs in a store, task by task
    else                   one second, which the report mentions

A duration of a whole job is divided among its tasks: sequential tasks get equal parts, parallel tasks get all of it.
Retries, timeouts and waits are not included: the core decides them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from statistics import median
from typing import Final

from itinerary.core.timeline.job_plan import JobPlan
from itinerary.model.queries import DetailsQuery, HistoryQuery, JobsByNameQuery
from itinerary.model.states import TaskState
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["DEFAULT_TAKES", "TaskDurations", "takes_in"]

DEFAULT_TAKES: Final = SECOND
"""The duration of a task without other information."""
_RUNS: Final = 50
"""The number of a job's last runs that are read."""
_NAMES: Final = 1_000


class TaskDurations:
    """The duration of each task of each job, in microseconds."""

    def __init__(
        self,
        said: Mapping[str, int] | None = None,
        seen: Mapping[tuple[str, str], int] | None = None,
        default: int = DEFAULT_TAKES,
    ) -> None:
        """Create the durations. `said` is by job; `seen` is by job and task."""
        self._said, self._seen, self.default = said or {}, seen or {}, default

    def of(self, plan: JobPlan) -> dict[str, int]:
        """Return the duration of each task of a job."""
        whole = self._said.get(plan.name)
        if whole is not None:
            share = whole if plan.start_config.is_parallel else whole // max(len(plan.tasks), 1)
            return {task.name: share for task in plan.tasks}
        return {task.name: self._seen.get((plan.name, task.name), self.default) for task in plan.tasks}

    def source(self, plan: JobPlan) -> str:
        """Return the source of a job's durations: said, history, or assumed."""
        if plan.name in self._said:
            return "said"
        return "history" if any((plan.name, task.name) in self._seen for task in plan.tasks) else "assumed"


async def takes_in(store: Store, jobs: Collection[str]) -> dict[tuple[str, str], int]:
    """Return the median duration of the last successful attempts, by job and task."""
    names = sorted(jobs)
    found: dict[tuple[str, str], int] = {}
    for first in range(0, len(names), _NAMES):
        for name, job in (await store.read(JobsByNameQuery(tuple(names[first : first + _NAMES])))).items():
            rows = (await store.read(HistoryQuery(job.number, limit=_RUNS))).rows
            lasted: defaultdict[str, list[int]] = defaultdict(list)
            for detail in await store.read(DetailsQuery(tuple(row.ref for row in rows))):
                titles = {task.place: task.name for task in detail.tasks}
                for attempt in detail.attempts:
                    is_done = attempt.status is TaskState.SUCCESS and attempt.place in titles
                    if is_done and attempt.started_at is not None and attempt.ended_at is not None:
                        lasted[titles[attempt.place]].append(max(attempt.ended_at - attempt.started_at, 0))
            found |= {(name, task): int(median(times)) for task, times in lasted.items()}
    return found
