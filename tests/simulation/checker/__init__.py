"""The checker: the rules for every commit, and for the end of a day, when the nodes have had time to finish all work.

    commits         the rules that hold at every commit
    heartbeat_gaps  the silence of each node, by the commits of its heartbeats
    expectations    the expected instants and the pauses of each job, from the changes of operators
    violations      the rules, and the violations that the checks find
    audit           the checks of `itinerary audit` for any store: instants, trails, indexes, slots and limits, queues
    final_checks    every occurrence is final, and every overlap slot and limit share is released
    runs            the log of the tasks, compared with the rows and the rules
    shutdowns       the effects of graceful shutdowns, compared with `on_shutdown`
    match           starts compared with due instants, by time alone
    records         the log of records, leases, and the batches of the handlers
    snapshot        the rows of a store at one moment

The checker decides by what really happened: the commits of the database, and the log that the tasks write themselves.
"""

from tests.simulation.checker.audit import check_store
from tests.simulation.checker.final_checks import check_settled
from tests.simulation.checker.match import match
from tests.simulation.checker.records import LogWitness, check_records, is_done
from tests.simulation.checker.runs import RunChecks
from tests.simulation.checker.snapshot import Snapshot

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
