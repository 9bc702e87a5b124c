"""The checker: the rules for the end of a day, when all nodes have had time to finish all work.

    audit           the checks of `itinerary audit` for any store: instants, trails, indexes, slots and limits, queues
    final_checks    every occurrence is final, and every overlap slot and limit share is released
    runs            the log of the tasks, compared with the rows and the rules
    shutdowns       the effects of graceful shutdowns, compared with `on_shutdown`
    match           starts compared with due instants, by time alone
    records         the log of records, leases, and the batches of the handlers
    snapshot        the rows of a store at one moment

`commit_checker` checks the rules that hold at every commit.
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
