"""What the tests of the timeline, the sweep and the audit share: a book to make entries in, and a shelf for rows.

The shelf keeps what the sweep writes as a store would: a key that exists is left alone, a stretch only grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from itinerary.core.recovery.sweep import WINDOWS_REACH, Sweep
from itinerary.core.recovery.unstarted_claims import unstarted
from itinerary.core.timeline.history import HistorySegment
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import StoredZone
from itinerary.model.codec import to_json
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind, Window
from itinerary.model.overrides import NOTHING, Overrides
from itinerary.model.rows import EntryKind, EntryRow, JobNumber, JobRow, Key, NodeNumber, OccurrenceRow, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.model.sweeps import SweepPlan, SweepStep
from itinerary.model.writes import ClaimRequest
from itinerary.schedules import Schedule, Zone, every, packaged_zone

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOON = 1_800_000_000 // 86_400 * 86_400 * SECOND + 12 * HOUR
"""Some noon, UTC."""
MINUTELY = every("1m")


def body_of(schedule: Schedule, overrides: Overrides = NOTHING, defaults: Overrides = NOTHING) -> str:
    """The body of a version."""
    definition = Definition(schedule=schedule.to_json(), overrides=overrides, defaults=defaults)
    return to_json(definition).decode()


class Book:
    """A timeline in the making: each call is an entry, under a revision of its own unless told otherwise."""

    def __init__(self) -> None:
        self.entries: list[EntryRow] = []
        self.jobs: dict[JobNumber, JobRow] = {}
        self._revision = 0

    def job(
        self, name: str, schedule: Schedule, at: int = NOON, overrides: Overrides = NOTHING, body: str | None = None
    ) -> JobNumber:
        """A new job, and its first version."""
        number = JobNumber(len(self.jobs) + 1)
        self.jobs[number] = JobRow(number, name, at, 0, at)
        self.version(number, schedule, at, overrides, body)
        return number

    def version(
        self, job: JobNumber, schedule: Schedule, at: int, overrides: Overrides = NOTHING, body: str | None = None
    ) -> int:
        number = self.jobs[job].version + 1
        self.jobs[job] = replace(self.jobs[job], version=number)
        text = body_of(schedule, overrides)
        self.enter(EntryKind.VERSION, job, at, body=text if body is None else body)
        return number

    def enter(self, kind: EntryKind, job: int, at: int, **values: Any) -> None:
        self._revision += 1
        number = JobNumber(job)
        version = self.jobs[number].version if number else 0
        given = {"subject": "", "body": None, "reason": None, "by": "anna", **values}
        self.entries.append(
            EntryRow(
                self._revision,
                0,
                number,
                kind,
                f"request {self._revision}",
                at,
                at,
                given["by"],
                version,
                given["subject"],
                given["body"],
                given["reason"],
            )
        )

    def pause(self, job: JobNumber, at: int, until: int | None = None, **values: Any) -> None:
        self.enter(EntryKind.PAUSE, job, at, body=None if until is None else f'{{"until":{until}}}', **values)

    def resume(self, job: JobNumber, at: int) -> None:
        self.enter(EntryKind.RESUME, job, at)

    def stop(self, job: JobNumber, at: int, **values: Any) -> None:
        self.enter(EntryKind.STOP, job, at, **values)

    def start(self, job: JobNumber, at: int) -> None:
        self.enter(EntryKind.START, job, at)

    def remove(self, job: JobNumber, at: int) -> None:
        self.enter(EntryKind.REMOVE, job, at)

    def skip(self, job: JobNumber, instant: int, at: int = NOON, **values: Any) -> None:
        self.enter(EntryKind.SKIP, job, at, subject=str(instant), **values)

    def zone(self, name: str, at: int, shifted_by: int = 0, release: str = "2026a") -> None:
        """Zone data, as packaged or with a clock that is so many seconds ahead of it."""
        body = to_json(StoredZone.of(shifted(name, shifted_by), release)).decode()
        self.enter(EntryKind.ZONE, 0, at, subject=name, body=body)

    @property
    def timeline(self) -> Timeline:
        return Timeline.of(self.entries, self.jobs.values())


def shifted(name: str, seconds: int) -> Zone:
    """A zone whose clock is so many seconds ahead of what it is."""
    zone = packaged_zone(name)
    return Zone(name, zone.starts, tuple(offset + seconds for offset in zone.offsets))


def standings(segments: Iterable[HistorySegment]) -> list[tuple[int, int, int, str]]:
    """Stretches as minutes after noon: from, to, version, standing."""
    return [
        (
            (one.start - NOON) // MINUTE,
            (one.end - NOON) // MINUTE,
            one.version,
            type(one.status).__name__.removeprefix("Job").lower(),
        )
        for one in segments
    ]


class Shelf:
    """Occurrences, kept as a store keeps them."""

    def __init__(self) -> None:
        self.rows: dict[Key, OccurrenceRow] = {}
        self.plan: SweepPlan | None = None
        self._refs = 0

    def put(self, key: Key, status: OccurrenceState = OccurrenceState.COMPLETED, **values: Any) -> None:
        """A row that somebody else made."""
        self._add(key, 1, status, **values)

    def _add(
        self, key: Key, version: int, status: OccurrenceState, window: Window | None = None, **values: Any
    ) -> None:
        if key in self.rows:
            return
        self._refs += 1
        given = {
            "due_at": key.instant,
            "is_recovery": False,
            "priority": 0,
            "created_at": 0,
            "created_by": None,
            "owner": None,
            "fence": 1,
            "ended_at": 0 if status in FINAL else None,
            **values,
        }
        if window is not None:
            given.update(window_start=window.start, window_end=window.end, window_count=window.count)
        self.rows[key] = OccurrenceRow(
            ref=Ref(self._refs),
            instant=key.instant,
            job=key.job,
            kind=key.kind,
            request=key.request,
            version=version,
            status=status,
            **given,
        )

    def begin(self, start: int, end: int) -> None:
        self.plan = SweepPlan(start, end, "", 0, NodeNumber(1), 1)

    def sweep(self, timeline: Timeline, grace_period: int = 30 * SECOND) -> Sweep:
        plan = self.plan
        assert plan is not None
        return Sweep(
            plan,
            timeline,
            self.decided(plan.start, plan.end),
            self.windows(plan.start - WINDOWS_REACH),
            grace_period=grace_period,
            unstarted=unstarted(plan, timeline, self.active(), grace_period=grace_period, now=plan.end),
        )

    def active(self) -> list[OccurrenceRow]:
        """Rows that are neither final nor queued."""
        return [row for row in self.rows.values() if row.status not in {*FINAL, OccurrenceState.QUEUED}]

    def decided(self, start: int, end: int) -> list[Key]:
        return sorted(key for key in self.rows if start <= key.instant < end)

    def windows(self, after: int) -> list[OccurrenceRow]:
        ending = [(row.window.end, row) for row in self.rows.values() if row.window is not None]
        return [row for end, row in sorted(ending, key=lambda pair: (pair[0], pair[1].ref)) if end > after]

    def take(self, step: SweepStep) -> None:
        """Do a step of the plan."""
        plan = self.plan
        assert plan is not None
        assert (step.fence, step.step) == (plan.fence, plan.step + 1)
        for wanted in step.wanted:
            assert plan.start <= wanted.key.instant < plan.end, "nothing outside the plan is decided"
            self._add(
                wanted.key,
                wanted.version,
                wanted.status,
                wanted.window,
                due_at=wanted.due_at,
                is_recovery=wanted.is_recovery,
                priority=wanted.priority,
                reason=wanted.reason,
            )
        by_ref: Mapping[Ref, Key] = {row.ref: key for key, row in self.rows.items()}
        for ref in step.covered:
            del self.rows[by_ref[ref]]
        for item in step.claimed:
            self._become(self.rows[by_ref[item.ref]], item.becomes)
        for ref in step.waiting:
            row = self.rows[by_ref[ref]]
            self.rows[row.key] = replace(row, status=OccurrenceState.QUEUED)
        for extension in step.extensions:
            row = self.rows[by_ref[extension.ref]]
            assert row.window_end is not None
            assert row.status in FINAL
            if extension.end > row.window_end:
                assert extension.end <= plan.end
                self.rows[row.key] = replace(row, window_end=extension.end, window_count=extension.count)
        self.plan = None if step.is_last else replace(plan, step=step.step, cursor=step.cursor)

    def _become(self, row: OccurrenceRow, wanted: ClaimRequest) -> None:
        assert row.status is OccurrenceState.PRERUN, "only what was claimed is recovered"
        assert row.key == wanted.key
        self.rows[row.key] = replace(
            row,
            status=wanted.status,
            is_recovery=wanted.is_recovery,
            reason=wanted.reason,
            ended_at=0 if wanted.status in FINAL else None,
            window_start=None if wanted.window is None else wanted.window.start,
            window_end=None if wanted.window is None else wanted.window.end,
            window_count=None if wanted.window is None else wanted.window.count,
        )

    def work_off(self, timeline: Timeline, start: int, end: int, **values: Any) -> int:
        """A whole plan. Returns how many steps it took."""
        self.begin(start, end)
        count = 0
        for step in self.sweep(timeline).steps(**values):
            self.take(step)
            count += 1
        return count

    def of(self, job: JobNumber) -> list[OccurrenceRow]:
        return [self.rows[key] for key in sorted(self.rows) if key.job == job]


@dataclass(frozen=True)
class Stubborn:
    """A schedule of somebody else's that never advances."""

    kind: str = "stubborn"

    def next_after(self, t: datetime) -> datetime | None:
        return t

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        return [start, start] if start < end else []

    def __str__(self) -> str:
        return "never really"

    def to_json(self) -> object:
        return {}

    @classmethod
    def from_json(cls, _: object) -> Stubborn:
        return cls()


def install_stubborn(folder: Path) -> None:
    """Make `folder` look like the place where a package with this kind has been installed."""
    info = folder / "core_stubborn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: core-stubborn\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[itinerary.schedules]\nstubborn = tests.unit.core.timelines:Stubborn\n")


def scheduled(job: JobNumber, instant: int) -> Key:
    return Key(instant, job, Kind.SCHEDULED)


def minutes(book: Book, job: int, start: int, end: int) -> list[tuple[int, int, bool]]:
    """What is expected, in minutes after noon: when, by which version, and whether it is to run."""
    found = book.timeline.expected(NOON + start * MINUTE, NOON + end * MINUTE, [JobNumber(job)])
    return [((due.instant - NOON) // MINUTE, due.version, due.skipped is None) for due in found]
