"""The audit: checks that a store decides every expected instant exactly once and does not contradict itself (U6).

    coverage          every instant that the versions in force made due is decided exactly once, or inside one window
    row_consistency   an occurrence's trail is legal, and all other tables agree with it
    queue_order       overlap queues are served in order
    findings          the faults, in sentences
    outcome_texts     the outcomes of the instants, in words
    runner            the audit of a store, page by page

`itinerary audit` runs this on any store, and the simulation runs it after each seed. The audit reads through
`ports.Store` alone, one page per transaction. So a store in use can be audited: nothing is locked, and work in progress
is not reported as a fault.
"""

from itinerary.audit.findings import AuditFinding, Check
from itinerary.audit.outcome_texts import done, outcome_words
from itinerary.audit.runner import DECIDED_WITHIN, AuditProgress, AuditResult, NotLookedAt, audit_store, audit_window

__all__ = [
    "DECIDED_WITHIN",
    "AuditFinding",
    "AuditProgress",
    "AuditResult",
    "Check",
    "NotLookedAt",
    "audit_store",
    "audit_window",
    "done",
    "outcome_words",
]
