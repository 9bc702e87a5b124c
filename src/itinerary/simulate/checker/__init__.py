"""The checker: what must be so when a day is over, everybody has had the time to finish, and nothing is left to do.

    auditing    what `itinerary audit` looks at in any store: instants, trails, indexes, what is held, lines
    settled     everything is final, and everything held is given back
    runs        what the tasks wrote themselves, against the rows and the rules
    matching    starts against what was due, by time alone
    records     the log, leases, and what handlers were given

What holds at every single commit is looked at while it happens: see `commit_checker`.
"""

from itinerary.simulate.checker.audit import check_store
from itinerary.simulate.checker.final_checks import check_settled
from itinerary.simulate.checker.match import match
from itinerary.simulate.checker.records import LogWitness, check_records, is_done
from itinerary.simulate.checker.runs import RunChecks
from itinerary.simulate.checker.snapshot import Snapshot

__all__ = [
    "LogWitness",
    "RunChecks",
    "Snapshot",
    "check_records",
    "check_settled",
    "check_store",
    "is_done",
    "match",
]
