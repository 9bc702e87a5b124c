"""Tests of jobs: a real node on a clock that the test moves, without sleeping.

    test_node        TestNode, which the fixture `itinerary_clock` starts       history     the outcomes of occurrences
    time_control     how time passes, and which part of it is skipped           logs        the log
    test_node_loop   virtual time, as far as the test moves it                  fakes       replacements for tasks
    environment      the environment of the node                                executors   the executor of its tasks
    virtual_loop     an event loop with virtual time                            processes   starts of a node there

The fixture itself is in `pytest_itinerary`, which pytest imports in every run. So the fixture imports this package only
when a test uses it. Without pytest: `with closing(TestNode(app)) as run`.
"""

from itinerary.testing.fakes import Fake
from itinerary.testing.history import OccurrenceHistory, PastOccurrence
from itinerary.testing.logs import LogLine
from itinerary.testing.test_node import TestNode, UpcomingInstant

__all__ = ["Fake", "LogLine", "OccurrenceHistory", "PastOccurrence", "TestNode", "UpcomingInstant"]
