"""The checker: what must be so when a day is over, everybody has had the time to finish, and nothing is left to do.

    rows        any store at any time: trails, indexes, histories, slots (also what `itinerary audit` looks at)
    instants    every owed instant is decided exactly once
    runs        what the tasks wrote themselves, against the rows and the rules
    lines       queues are served in order

What holds at every single commit is looked at while it happens: see `witness`.
"""

from itinerary.simulate.checker.instants import check_instants, match
from itinerary.simulate.checker.lines import check_lines
from itinerary.simulate.checker.rows import check_rows, check_settled
from itinerary.simulate.checker.runs import RunChecks
from itinerary.simulate.checker.snapshot import Snapshot

__all__ = ["RunChecks", "Snapshot", "check_instants", "check_lines", "check_rows", "check_settled", "match"]
