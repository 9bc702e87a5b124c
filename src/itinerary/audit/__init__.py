"""The audit: whether a store says one thing of every expected instant, and nothing that contradicts itself (U6).

    instants    every instant that the versions in force made due is decided exactly once, or inside one window
    rows        an occurrence's trail is legal, and everything that is said of it elsewhere agrees
    lines       who stands in line for a job's slot is served in order
    findings    what is wrong, in sentences
    words       what became of the instants, in words
    auditing    a store, gone through page by page

`itinerary audit` runs this on any store, and the simulation after each seed. It reads through `ports.Store` alone, a
page in each transaction, so a store can be audited while it is in use: nothing is locked, and nothing is held against
what is still under way.
"""

from itinerary.audit.findings import Check, Finding
from itinerary.audit.outcome_texts import done, outcome_words
from itinerary.audit.runner import DECIDED_WITHIN, Audited, NotLookedAt, Progress, audit_store, audit_window

__all__ = [
    "DECIDED_WITHIN",
    "Audited",
    "Check",
    "Finding",
    "NotLookedAt",
    "Progress",
    "audit_store",
    "audit_window",
    "done",
    "outcome_words",
]
