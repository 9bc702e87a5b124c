"""Simulated operators, who cancel, trigger, pause and update jobs at random. Their changes are durable at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

from itinerary.core.timeline.reconcile_unstarted import judge_by
from itinerary.core.timeline.timeline import Timeline
from itinerary.core.timeline.zone_history import lacking_entries
from itinerary.model.codec import to_json
from itinerary.model.occurrence import Kind
from itinerary.model.rows import EntryKind, JobNumber, JobRow, Key
from itinerary.model.states import FINAL
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import CancelRequest, ClaimRequest
from itinerary.schedules import ZoneData
from itinerary.stores import ledger
from itinerary.stores.tables import ENTRIES, JOBS, OCCURRENCES
from tests.simulation.checker.expectations import Expectations
from tests.simulation.world.backend import Backend
from tests.simulation.world.history import EventHistory
from tests.simulation.world.jobs import SimulatedJob
from tests.simulation.world.rng import one_of

__all__ = ["People"]


class People:
    """The operators. Their calls reach the store directly, without the simulated network."""

    def __init__(
        self, backend: Backend, expectations: Expectations, dice: Random, history: EventHistory, zone_data: ZoneData
    ) -> None:
        self._backend, self._expectations, self._zone_data = backend, expectations, zone_data
        self._dice = dice
        self._history = history
        self._triggers = self._entries = 0
        self._paused: set[JobNumber] = set()

    def cancel(self) -> None:
        """Cancel a random unfinished occurrence, if there is one."""
        rows = [row for row in self._backend.rows(OCCURRENCES).values() if row.status not in FINAL]
        if rows:
            ref = one_of(self._dice, rows).ref
            self._history.note("people", "cancel", f"occurrence {ref}")
            self._backend.commit(lambda tx: ledger.control(tx, None, [CancelRequest(ref, "people: it was to be")]))

    def trigger(self, now: int) -> None:
        """Trigger a random job."""
        job = one_of(self._dice, list(self._backend.rows(JOBS).values()))
        self._triggers += 1
        instant = now // 1_000_000 * 1_000_000
        wanted = ClaimRequest(Key(instant, job.number, Kind.TRIGGER, f"request {self._triggers}"), job.version, instant)
        self._history.note("people", "trigger", job.name)
        self._backend.commit(lambda tx: ledger.claim(tx, None, None, [wanted]))

    # -- jobs --------------------------------------------------------------------------------------------------------

    def pause(self, name: str) -> bool:
        """Pause a job. Return False if it is already paused."""
        if self._job(name).number in self._paused:
            return False
        entered = self._enter(
            TimelineEntryRequest(job=name, kind=EntryKind.PAUSE, request=self._request(), by="people")
        )
        self._paused.add(entered.job)
        self._expectations.paused(entered.job, entered.effective_from)
        return True

    def resume(self, name: str) -> None:
        """Resume a job."""
        entered = self._enter(
            TimelineEntryRequest(job=name, kind=EntryKind.RESUME, request=self._request(), by="people")
        )
        self._paused.discard(entered.job)
        self._expectations.resumed(entered.job, entered.effective_from)

    def update(self, job: SimulatedJob, effective_from: int | None, ends_at: int) -> None:
        """Register a new version of a job.

        Args:
            job: The new version.
            effective_from: The instant at which it takes effect; None for now.
            ends_at: The end of the day.
        """
        entered = self._enter(
            TimelineEntryRequest(
                job=job.name,
                kind=EntryKind.VERSION,
                request=self._request(),
                by="people",
                from_version=self._job(job.name).version,
                effective_from=effective_from,
                body=to_json(job.definition()).decode(),
            ),
            job.zone_names(),
        )
        self._expectations.scheduled(entered.job, entered.effective_from, ends_at, job.instants)

    def _job(self, name: str) -> JobRow:
        rows: Iterable[JobRow] = self._backend.rows(JOBS).values()
        return next(row for row in rows if row.name == name)

    def _request(self) -> str:
        self._entries += 1
        return f"change {self._entries}"

    def _enter(self, entry: TimelineEntryRequest, zones: Collection[str] = ()) -> EntryAccepted:
        self._history.note("people", str(entry.kind), entry.job)
        timeline = Timeline.of(self._backend.rows(ENTRIES).values(), self._backend.rows(JOBS).values())
        new = lacking_entries(timeline.zones, self._zone_data, zones, by="people", revision=timeline.revision)
        *_, entered = self._backend.commit(lambda tx: ledger.amend(tx, [*new, entry], judge_by(timeline)))
        assert isinstance(entered, EntryAccepted), f"{entry} was denied: {entered}"
        return entered
