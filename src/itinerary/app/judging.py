"""What becomes of occurrences that are claimed and have not started, when their job changes (R6, R7, D10).

Occurrences are claimed some seconds ahead of their instants. A change that takes an instant away must not leave its row
to be started, and this is decided in the transaction that makes the change: the store shows what has not started, and
one of these says for each what becomes of it. They are pure, and may be asked twice.

    a version      what its schedule has stays, under the new version; what it has not is withdrawn
    pause, stop    everything that is by the schedule is withdrawn     resume, start    … and brought back
    skip           that one is withdrawn
    remove         everything is cancelled, for good

What is due within a moment is left to the version that claimed it: whether a new version comes before that instant or
after is known only when it is made, and an instant that the old one expected must not be lost. A pause or a stop takes
it, since somebody asked for that before it was due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from itinerary.core.stretches import FOREVER
from itinerary.model.queries import JobsByName, Standing
from itinerary.model.rows import OccurrenceRow
from itinerary.model.timeline import Judge, Verdict, VerdictKind
from itinerary.ports import Store
from itinerary.schedules import Schedule
from itinerary.schedules.durations import SECOND

__all__ = ["judge_of_hold", "judge_of_release", "judge_of_removal", "judge_of_versions"]

_MOMENT: Final = 1 * SECOND


async def judge_of_versions(store: Store, changed: Mapping[str, tuple[int, Schedule]]) -> Judge:
    """The judge of these jobs' new versions: the number of each, and its schedule."""
    now = (await store.read(Standing())).now
    rows = await store.read(JobsByName(tuple(changed)))
    schedules = {row.number: changed[name] for name, row in rows.items()}

    def judge(shown: Sequence[OccurrenceRow]) -> list[Verdict]:
        return [
            verdict
            for row in shown
            if row.job in schedules and _is_ahead(row, now)
            for verdict in _of_version(row, *schedules[row.job], now)
        ]

    return judge


def _of_version(row: OccurrenceRow, version: int, schedule: Schedule, now: int) -> list[Verdict]:
    if _has(schedule, row):
        kind = VerdictKind.RESTORE if row.is_withdrawn else VerdictKind.KEEP
        return [Verdict(row.ref, kind, version, f"version {version} has this instant")]
    if row.instant > now + _MOMENT:
        return [Verdict(row.ref, VerdictKind.WITHDRAW, version, f"version {version} does not have this instant")]
    return []


def judge_of_hold(version: int, why: str, after: int, before: int = FOREVER) -> Judge:
    """The judge of a job that is paused or stopped, or of one instant that is skipped: what is between is withdrawn."""

    def judge(shown: Sequence[OccurrenceRow]) -> list[Verdict]:
        return [
            Verdict(row.ref, VerdictKind.WITHDRAW, version, why)
            for row in shown
            if _is_ahead(row, after) and row.instant < before and not row.is_withdrawn
        ]

    return judge


def judge_of_release(version: int, schedule: Schedule, why: str, now: int) -> Judge:
    """The judge of a job that is resumed, or started again: what its schedule has is brought back."""

    def judge(shown: Sequence[OccurrenceRow]) -> list[Verdict]:
        return [
            Verdict(row.ref, VerdictKind.RESTORE, version, why)
            for row in shown
            if row.is_withdrawn and _is_ahead(row, now) and _has(schedule, row)
        ]

    return judge


def judge_of_removal(version: int, why: str) -> Judge:
    """The judge of a job that is removed: what runs finishes, and nothing of it begins any more."""

    def judge(shown: Sequence[OccurrenceRow]) -> list[Verdict]:
        return [Verdict(row.ref, VerdictKind.CANCEL, version, why) for row in shown]

    return judge


def _is_ahead(row: OccurrenceRow, now: int) -> bool:
    return row.kind.is_by_schedule and row.window_start is None and row.instant > now


def _has(schedule: Schedule, row: OccurrenceRow) -> bool:
    return bool(schedule.between(row.instant, row.instant + SECOND))
