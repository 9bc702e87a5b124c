"""What will happen: the jobs of an app, on the real core, in no time (U5).

    takes          how long tasks take: said, seen in a store, or assumed
    stage          the core and the ledger, on which runs are played
    episodes       from runs to what becomes of them, without playing the same thing twice
    crowds         where more is due than the node has slots
    forecasting    a window of time, and the outages in it
    nights         wall clocks that are put forward or back
    reporting      what it comes to

`itinerary simulate` shows this. It is not `itinerary.simulate`, the tests' world of faults, in which several whole
nodes crash, freeze and lose answers on a store for a day: that asks whether the engine is right. Here one node is
there, or it is not, and nothing fails that is not said to: this asks whether the jobs are.

What a forecast takes for granted: tasks succeed, and take as long as is said; conditions are met; nobody pauses,
triggers or cancels anything; there is one node. Timeouts are the core's: a task that takes longer than it may fails,
and is tried again as its job says.
"""

from itinerary.forecast.forecast import Foreseen, Outage, foresee, staged
from itinerary.forecast.report import Forecast, occurrences, told
from itinerary.forecast.task_durations import DEFAULT_TAKES, Takes, takes_in

__all__ = [
    "DEFAULT_TAKES",
    "Forecast",
    "Foreseen",
    "Outage",
    "Takes",
    "foresee",
    "occurrences",
    "staged",
    "takes_in",
    "told",
]
