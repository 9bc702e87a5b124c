"""How long tasks take, as far as anybody can say before they run.

    --takes JOB=30s        somebody has said so: the whole job, however many tasks it has
    history                the median of the last runs in a store, task by task
    else                   a second, which is said in the answer

A job that was given as a whole is divided among its tasks: one after the other each has its part, and side by side each
takes all of it. Retries, timeouts and waiting are not in these figures: those are for the core to decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from statistics import median
from typing import Final

from itinerary.core.timeline.job_plan import JobPlan
from itinerary.model.queries import Details, History, JobsByName
from itinerary.model.states import TaskState
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND

__all__ = ["DEFAULT_TAKES", "Takes", "takes_in"]

DEFAULT_TAKES: Final = SECOND
"""What a task takes of which nobody knows anything."""
_RUNS: Final = 50
"""So many of a job's last runs are looked at."""
_NAMES: Final = 1_000


class Takes:
    """How long each task of each job takes, in microseconds."""

    def __init__(
        self,
        said: Mapping[str, int] | None = None,
        seen: Mapping[tuple[str, str], int] | None = None,
        default: int = DEFAULT_TAKES,
    ) -> None:
        """`said` is of whole jobs, `seen` of tasks, by the names of their job and their own."""
        self._said, self._seen, self.default = said or {}, seen or {}, default

    def of(self, plan: JobPlan) -> dict[str, int]:
        """What each task of a job takes."""
        whole = self._said.get(plan.name)
        if whole is not None:
            share = whole if plan.terms.is_parallel else whole // max(len(plan.tasks), 1)
            return {task.name: share for task in plan.tasks}
        return {task.name: self._seen.get((plan.name, task.name), self.default) for task in plan.tasks}

    def source(self, plan: JobPlan) -> str:
        """Where that comes from: said, history, or assumed."""
        if plan.name in self._said:
            return "said"
        return "history" if any((plan.name, task.name) in self._seen for task in plan.tasks) else "assumed"


async def takes_in(store: Store, jobs: Collection[str]) -> dict[tuple[str, str], int]:
    """The median of the last successful attempts of each task, by the names of its job and its own."""
    names = sorted(jobs)
    found: dict[tuple[str, str], int] = {}
    for first in range(0, len(names), _NAMES):
        for name, job in (await store.read(JobsByName(tuple(names[first : first + _NAMES])))).items():
            rows = (await store.read(History(job.number, limit=_RUNS))).rows
            lasted: defaultdict[str, list[int]] = defaultdict(list)
            for detail in await store.read(Details(tuple(row.ref for row in rows))):
                titles = {task.place: task.name for task in detail.tasks}
                for attempt in detail.attempts:
                    is_done = attempt.status is TaskState.SUCCESS and attempt.place in titles
                    if is_done and attempt.started_at is not None and attempt.ended_at is not None:
                        lasted[titles[attempt.place]].append(max(attempt.ended_at - attempt.started_at, 0))
            found |= {(name, task): int(median(times)) for task, times in lasted.items()}
    return found
