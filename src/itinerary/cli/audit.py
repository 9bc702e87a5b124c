"""`itinerary audit`: the result of an audit in words, and its progress (see `itinerary.audit`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from itinerary.audit import AuditProgress, AuditResult, NotLookedAt, done
from itinerary.cli.progress import ProgressCallback
from itinerary.schedules.instants import shown_instant

__all__ = ["heard_by", "words"]

_PARTS: Final = 100


def words(found: AuditResult) -> str:
    """Return the result of an audit in lines: a summary, the outcomes, the unexamined part, and each fault."""
    decided = f"{found.expected} expected, {found.matched} decided exactly once"
    others = f"{found.lost} lost, {found.doubled} doubled, {found.unexpected} unexpected, {found.unknown} unknown"
    looked_at = f"{found.occurrences} occurrences looked at, {found.wrong} other faults"
    lines = [f"{found.start} to {found.end}: {decided}, {others}; {looked_at}"]
    if found.expected:
        lines.append(f"  {_done(found)}")
    if found.not_looked_at is not None:
        lines.append(f"  {_not_looked_at(found.not_looked_at)}")
    lines += [f"  {finding}" for finding in found.findings]
    left_out = found.lost + found.doubled + found.unexpected + found.wrong - len(found.findings)
    if left_out:
        lines.append(f"  … and {left_out} more")
    lines += [f"  cannot be enumerated: {gap}" for gap in found.gaps]
    return "\n".join(lines)


def _done(found: AuditResult) -> str:
    """Return the outcomes of the decided instants, and the number of those for which nothing ran."""
    *parts, (not_run, _) = done(found)
    if found.lost:
        parts.append((found.lost, "lost"))
    return "; ".join(filter(None, [", ".join(f"{count} {words}" for count, words in parts), f"not run: {not_run}"]))


def _not_looked_at(part: NotLookedAt) -> str:
    due = f"{'more than ' if part.is_more else ''}{part.expected} due in it"
    return f"not looked at: {part.start} to {part.end}, {due}: the store has not decided everything there yet"


def heard_by(handle: ProgressCallback) -> Callable[[AuditProgress], None]:
    """Return a callback that shows the progress of an audit, as a part of its time window."""

    def notify(far: AuditProgress) -> None:
        total = max(far.end - far.start, 1)
        note = f"up to {shown_instant(far.upto)}, {far.occurrences:,} occurrences"
        handle((far.upto - far.start) * _PARTS // total, _PARTS, note)

    return notify
