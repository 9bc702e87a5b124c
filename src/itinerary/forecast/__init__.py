"""Forecast the runs of an app's jobs with the real core, in simulated time (U5).

    task_durations    how long tasks take: given by the user, measured in a store, or assumed
    simulator         the core and the ledger, on which runs are simulated
    isolated_runs     the outcomes of runs, without simulating the same situation twice
    outcome_columns   the outcomes of runs, in columns
    contention        periods in which more is due than the node has slots
    forecast          a window of time with its outages
    dst_changes       the effect of clock changes
    report            the result

`itinerary simulate` shows a forecast. The simulation of the project's own tests is different: it runs several nodes
that crash, freeze and lose answers, to verify the scheduler. Here one node is up or down, and nothing fails unless the
user says so, to verify the jobs.

A forecast assumes that tasks succeed and take the given time, and that conditions are met. No user pauses, triggers or
cancels anything, and there is one node. The core applies timeouts: a task that exceeds its timeout fails, and is
retried as its job says.
"""

from itinerary.forecast.forecast import ForecastColumns, Outage, foresee, staged
from itinerary.forecast.report import Forecast, occurrences, told
from itinerary.forecast.task_durations import DEFAULT_TAKES, TaskDurations, takes_in

__all__ = [
    "DEFAULT_TAKES",
    "Forecast",
    "ForecastColumns",
    "Outage",
    "TaskDurations",
    "foresee",
    "occurrences",
    "staged",
    "takes_in",
    "told",
]
