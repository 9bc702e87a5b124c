"""The audit of a simulated world: the same as `itinerary audit` for any store, and a check of its expected instants.

The audit and the nodes read the expected instants from the timeline. This check compares them with the jobs' schedules
directly, so an error in the timeline cannot hide a lost instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from itinerary.audit import audit_window
from itinerary.model.rows import JobNumber
from itinerary.ports import Store
from itinerary.stores.paging import read_timeline
from tests.simulation.checker.violations import Rule, Violations

__all__ = ["check_store"]


async def check_store(
    store: Store, owed: Mapping[JobNumber, Sequence[int]], start: int, end: int, violations: Violations
) -> None:
    """Check that the timeline expects exactly the right instants, and that all are decided.

    Args:
        store: The store to check.
        owed: The instants of each job in `[start, end)`, from its schedules.
        start: The start of the day.
        end: The end of the day.
        violations: Receives the violations.
    """
    expected: dict[JobNumber, list[int]] = {job: [] for job in owed}
    for due in (await read_timeline(store.read)).expected(start, end):
        expected.setdefault(due.job, []).append(due.instant)
    for job, instants in expected.items():
        for instant in sorted(set(instants).symmetric_difference(owed.get(job, ()))):
            who = "the timeline expects it" if instant in instants else "its schedule has it"
            violations.add(Rule.OWED, f"job {job}, instant {instant}: only {who}", instant)
    # All nodes have had time to decide every instant, so instants after the watermark count as lost too.
    for finding in (await audit_window(store, start, end)).findings:
        violations.add(Rule(finding.check), str(finding), finding.instant)
