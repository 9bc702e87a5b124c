"""What an audit reads of a store, a page at a time (U6): the same on every engine, and while others write."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from itinerary.audit import AuditResult, audit_store
from itinerary.model.audit_queries import InspectQuery, PointersQuery, PointerTable
from itinerary.model.codec import to_json
from itinerary.model.config import freeze
from itinerary.model.definition import Definition
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Overlap
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import Claimed, ClaimRequest, Limit, OwnerWrite, Started, StartRequest, Step
from itinerary.schedules.durations import SECOND
from itinerary.stores.engine import Engine
from itinerary.stores.store import EngineStore
from itinerary.stores.tables import ACTIVE, SHARES, TRANSITIONS

pytestmark = pytest.mark.spec("U6", "any store")

BEGINNING = 1_767_225_600 * SECOND
OVERRIDES = Overrides(overlap=Overlap.ALLOW)
CONFIG = to_json(freeze(OVERRIDES, {})).decode()


class Office:
    """A store with a job that is triggered for past instants, so that no clock has to be moved."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.store = EngineStore(engine)
        self.job = JobNumber(0)
        self.node = NodeNumber(0)
        self.revision = 0

    async def open(self) -> None:
        await self.store.open()
        body = to_json(Definition(schedule={"once": "2190-01-01T00:00:00Z"}, overrides=OVERRIDES)).decode()
        entry = TimelineEntryRequest(
            job="often", kind=EntryKind.VERSION, request="1", by="anna", from_version=0, body=body
        )
        (entered,) = await self.store.amend([entry])
        assert isinstance(entered, EntryAccepted)
        self.job, self.revision = entered.job, entered.revision
        self.node = await self.store.join("a/1", "a", "{}")

    async def claimed(self, seconds: range) -> Sequence[Claimed]:
        wanted = [
            ClaimRequest(Key(BEGINNING + second * SECOND, self.job, Kind.TRIGGER, f"{second}"), 1, BEGINNING)
            for second in seconds
        ]
        claims = await self.store.claim(self.node, self.revision, wanted)
        assert isinstance(claims, list)
        return claims

    async def started(self, claims: Sequence[Claimed]) -> list[Started]:
        starts = [
            StartRequest(
                claim.ref,
                claim.fence,
                claim.adjustments,
                CONFIG,
                3_600 * SECOND,
                Overlap.ALLOW,
                limits=(Limit("api", 10_000),),
                tasks=(TaskRow(claim.ref, 0, "main", TaskState.RUNNING),),
                attempts=(AttemptRow(claim.ref, 0, 1, TaskState.RUNNING, BEGINNING),),
            )
            for claim in claims
        ]
        answers = await self.store.start(self.node, self.revision, starts, 0)
        return [answer for answer in answers if isinstance(answer, Started)]

    async def ended(self, started: Sequence[Started], state: OccurrenceState = OccurrenceState.COMPLETED) -> None:
        end = (Step(state),)
        await self.store.write(self.node, [OwnerWrite(one.ref, one.fence, one.sequence + 1, end) for one in started])

    async def audited(self) -> AuditResult:
        return await audit_store(self.store, BEGINNING)


def told(found: AuditResult) -> list[str]:
    return [str(finding) for finding in found.findings]


def test_what_waits_what_runs_and_what_has_ended_is_audited_and_what_contradicts_itself_is_named(
    engine: Engine,
) -> None:
    async def story() -> None:
        office = Office(engine)
        await office.open()
        claims = await office.claimed(range(1_200))
        started = await office.started(claims[:900])
        await office.ended(started[1:600])
        await office.ended(started[:1], OccurrenceState.FAILED)
        found = await office.audited()
        assert (found.occurrences, told(found)) == (1_200, [])

        running, ended = started[700].ref, started[0].ref
        await engine.write(lambda tx: tx.remove(ACTIVE, [(office.job, running)]))
        await engine.write(lambda tx: tx.remove(SHARES, [("api", running)]))
        await engine.write(lambda tx: tx.remove(TRANSITIONS, [(ended,)]))
        found = await office.audited()
        assert sorted(message.partition(") ")[2] for message in told(found)) == [
            "holds a share of limit api, and the limit does not know of it",
            "is failed, and its trail ends with running",
            "is running, and the table active lacks it",
        ]
        await office.store.close()

    asyncio.run(story())


def test_pages_go_on_where_the_last_one_ended(engine: Engine) -> None:
    async def story() -> None:
        office = Office(engine)
        await office.open()
        refs = [claim.ref for claim in await office.claimed(range(10))]
        begin, found = None, list[Ref]()
        while True:
            page = await office.store.read(InspectQuery(BEGINNING + 2 * SECOND, BEGINNING + 9 * SECOND, begin, 3))
            found += [evidence.row.ref for evidence in page.found]
            begin = page.next
            if begin is None:
                break
        assert list(dict.fromkeys(found)) == sorted(refs)[2:9]
        first = await office.store.read(PointersQuery(PointerTable.ACTIVE, limit=6))
        assert first.next is not None
        rest = await office.store.read(PointersQuery(PointerTable.ACTIVE, first.next, limit=6))
        assert len({entry.ref for entry, row in (*first.found, *rest.found) if row is not None}) == 10
        assert rest.next is None
        await office.store.close()

    asyncio.run(story())


def test_a_store_is_audited_while_it_is_written_to(engine: Engine) -> None:
    async def story() -> None:
        office = Office(engine)
        await office.open()

        async def work() -> None:
            for round_number in range(12):
                claims = await office.claimed(range(round_number * 100, round_number * 100 + 100))
                await asyncio.sleep(0)
                started = await office.started(claims[:90])
                await asyncio.sleep(0)
                await office.ended(started[:80])
                await asyncio.sleep(0)

        working = asyncio.create_task(work())
        audits = 0
        while not working.done():
            found = await office.audited()
            assert told(found) == []
            audits += 1
            await asyncio.sleep(0)
        await working
        assert audits > 1
        assert (await office.audited()).occurrences == 1_200
        await office.store.close()

    asyncio.run(story())
