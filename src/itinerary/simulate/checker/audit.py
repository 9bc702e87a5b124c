"""The audit of a simulated world: what `itinerary audit` runs on any store, and whether it expects the right instants.

What was expected is read off the timeline, by the audit as by the nodes. Here it is compared with what the schedules of
the jobs say themselves: by a path of its own, so that a mistake in the timeline cannot hide what it lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from itinerary.audit import audit_window
from itinerary.model.rows import JobNumber
from itinerary.ports import Store
from itinerary.simulate.violations import Rule, Violations
from itinerary.stores.paging import read_timeline

__all__ = ["check_store"]


async def check_store(
    store: Store, owed: Mapping[JobNumber, Sequence[int]], start: int, end: int, violations: Violations
) -> None:
    """`owed` are the instants of each job in `[start, end)`: no other ones are expected, and all are decided."""
    expected: dict[JobNumber, list[int]] = {job: [] for job in owed}
    for due in (await read_timeline(store.read)).expected(start, end):
        expected.setdefault(due.job, []).append(due.instant)
    for job, instants in expected.items():
        for instant in sorted(set(instants).symmetric_difference(owed.get(job, ()))):
            who = "the timeline expects it" if instant in instants else "its schedule has it"
            violations.add(Rule.OWED, f"job {job}, instant {instant}: only {who}", instant)
    # Everybody has had the time to decide everything: what the watermark has not come to is lost as well.
    for finding in (await audit_window(store, start, end)).findings:
        violations.add(Rule(finding.check), str(finding), finding.instant)
