"""The rules for a world in which all work is finished."""

from __future__ import annotations

from itinerary.model.states import FINAL
from tests.simulation.checker.snapshot import Snapshot
from tests.simulation.checker.violations import Rule, Violations

__all__ = ["check_settled"]


def check_settled(snapshot: Snapshot, violations: Violations) -> None:
    """Check that every occurrence is final, no slot or share is held, and no present node has unread mail."""
    for row in snapshot.occurrences.values():
        if row.status not in FINAL:
            violations.add(Rule.SETTLED, f"{snapshot.named(row)} is still {row.status} (owner {row.owner})")
    for slot in snapshot.slots.values():
        if slot.ref is not None:
            violations.add(Rule.SETTLED, f"the slot of job {slot.job} is held by occurrence {slot.ref}")
    for share in snapshot.shares:
        violations.add(Rule.SETTLED, f"occurrence {share.ref} holds a share of limit {share.name}")
    present = {node.number for node in snapshot.nodes.values() if node.left_at is None}
    for mail in snapshot.mail:
        if mail.node in present:
            violations.add(Rule.SETTLED, f"node {mail.node} has unread mail about occurrence {mail.ref}")
