"""`explain` in worlds where anything may happen: it always has an answer, and says what the store says (U4)."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itinerary.explain import Cause, Explanation, RunResult, explain
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobRow, Key, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment, shown_instant
from itinerary.stores.paging import read_timeline
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ACTIVE, JOBS, OCCURRENCES
from tests.simulation.world.node_factory import real_life
from tests.simulation.world.options import Options, derive
from tests.simulation.world.world import World

HOUR = 3_600 * SECOND
SHOWN_MAX = 60
"""Of each job, how many expected instants are explained."""
ENDED_AS = {
    OccurrenceState.COMPLETED: {RunResult.RAN, RunResult.RAN_LATE},
    OccurrenceState.COMPLETED_WITH_ERRORS: {RunResult.RAN, RunResult.RAN_LATE},
    OccurrenceState.FAILED: {RunResult.FAILED, RunResult.DID_NOT_RUN},
    OccurrenceState.FAILED_STALE: {RunResult.FAILED},
    OccurrenceState.CANCELLED: {RunResult.CANCELLED, RunResult.DID_NOT_RUN},
    OccurrenceState.ORPHANED: {RunResult.FAILED},
    OccurrenceState.SKIPPED: {RunResult.DID_NOT_RUN},
    OccurrenceState.MISSED: {RunResult.DID_NOT_RUN},
}
"""What may be said of an occurrence that has ended."""


class AskingWorld(World):
    """A world in which somebody asks all the time."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, real_life)
        self.dice = random.Random(options.seed)  # noqa: S311 - a choice of examples
        self.asked: list[Explanation] = []
        self.contradictions: list[str] = []

    async def _prepare(self) -> int:
        owed_from = await super()._prepare()
        self._asking = self.loop.create_task(self._ask_all_day(owed_from), name="somebody who asks")
        return owed_from

    async def _ask_all_day(self, owed_from: int) -> None:
        """In the middle of everything: what runs, waits, or has just been lost with its node."""
        end = self.options.begins_at + self.options.runs_for
        while not self.is_healing:
            job = self.dice.choice(list(self.backend.rows(JOBS).values()))
            await self._explained(job, None)
            await self._explained(job, self.dice.randrange(owed_from, end) // SECOND * SECOND)
            for row in self.dice.sample(
                list(self.backend.rows(ACTIVE).values()), min(3, len(self.backend.rows(ACTIVE)))
            ):
                active = self.backend.rows(OCCURRENCES)[row.ref,]
                await self._explained(self.backend.rows(JOBS)[row.job,], active.instant)
            await asyncio.sleep(self.dice.uniform(1.0, 600.0))

    async def _check(self, owed_from: int) -> None:
        await self._asking
        await super()._check(owed_from)
        store = EngineStore(self.backend)
        timeline = await read_timeline(store.read)
        end = self.options.begins_at + self.options.runs_for
        for job in self.backend.rows(JOBS).values():
            expected = [due.instant for due in timeline.expected(owed_from, end, [job.number])]
            for instant in self.dice.sample(expected, min(len(expected), SHOWN_MAX)):
                self._compare(job, instant, await self._explained(job, instant))
            for _ in range(5):
                asked = self.dice.randrange(owed_from - HOUR, end + HOUR) // SECOND * SECOND
                self._compare_any(job, asked, await self._explained(job, asked), is_expected=asked in expected)
            await self._explained(job, None)

    async def _explained(self, job: JobRow, instant: int | None) -> Explanation:
        when = None if instant is None else Moment(instant // SECOND)
        found = await explain(EngineStore(self.backend), job.name, when)
        self.asked.append(found)
        return found

    def _compare(self, job: JobRow, instant: int, found: Explanation) -> None:
        """Everything is decided by now: an expected instant has a row that has ended, or lies in a window."""
        row = self._row(job, instant)
        allowed = {RunResult.DID_NOT_RUN} if row is None else ENDED_AS[row.status]
        if found.instant != shown_instant(instant) or found.fate not in allowed:
            self.contradictions.append(f"{job.name}:{instant // SECOND} is {row and row.status}, and it says {found}")

    def _compare_any(self, job: JobRow, asked: int, found: Explanation, *, is_expected: bool) -> None:
        """Any second: one that nothing was due at has no fate, unless another one is meant, or it was withdrawn."""
        is_there = is_expected or any(
            row.job == job.number and row.instant // SECOND == asked // SECOND
            for row in self.backend.rows(OCCURRENCES).values()
        )
        if not is_there and found.instant == shown_instant(asked) and found.fate is not RunResult.NOT_DUE:
            self.contradictions.append(f"{job.name} at {asked // SECOND} was never due, and it says {found}")

    def _row(self, job: JobRow, instant: int) -> OccurrenceRow | None:
        """The instant's own row; None if it lies in the window of another."""
        key = Key(instant, job.number, Kind.SCHEDULED)
        rows = self.backend.rows(OCCURRENCES).values()
        return next((row for row in rows if row.key == key), None)


@pytest.mark.spec("U4", "in any world")
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 100_000), hours=st.integers(1, 4))
def test_whatever_happens_every_instant_is_explained_as_the_store_has_it(seed: int, hours: int) -> None:
    world = AskingWorld(derive(seed, runs_for=hours * HOUR))
    outcome = world.run()
    assert outcome.violations == ()
    assert world.contradictions == []
    assert len(world.asked) > 5
    for found in world.asked:
        assert found.verdict.endswith("."), found
        assert "None" not in found.verdict, found
        assert found.cause is not Cause.LOST, found
