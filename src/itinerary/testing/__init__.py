"""For those who test their jobs: a real node on a clock that the test moves, without sleeping.

    rehearsal      Rehearsal: what the fixture `itinerary_clock` makes         past        what became of occurrences
    clockwork      how time passes, and what of it is skipped                  logs        what was logged
    loop           virtual time that goes as far as the test says              fakes       stand-ins for tasks
    ground, stage  what the node stands on, and what runs its tasks

The fixture itself is in `pytest_itinerary`, which pytest imports in every run: so it imports nothing of this before a
test asks for it. Without pytest: `with closing(Rehearsal(app)) as run`.
"""

from itinerary.testing.fakes import Fake
from itinerary.testing.history import History, Past
from itinerary.testing.logs import LogLine
from itinerary.testing.test_node import Rehearsal, Upcoming

__all__ = ["Fake", "History", "LogLine", "Past", "Rehearsal", "Upcoming"]
