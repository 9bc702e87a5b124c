"""The claimer: claims and starts in pieces, beside each other, until they are answered; and what is given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from itinerary.core.loop.commands import Claim, Release, StartRuns
from itinerary.core.loop.messages import ClaimsAnswered, StartsAnswered, Unclaimable
from itinerary.errors import StoreError
from itinerary.model.audit_trail import marked
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ByRefQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, JobNumber, Key, NodeNumber, Ref
from itinerary.model.settings import Settings
from itinerary.model.states import TaskState
from itinerary.model.writes import Claimed, ClaimRequest, Refusal, Refused, Started, StartRequest, TakeoverWrite
from itinerary.runtime.claimer import CLAIMS_AT_ONCE, FIRST_STARTS, STARTS_AT_ONCE, Claimer
from itinerary.runtime.clock import StoreClock
from itinerary.runtime.inbox import Inbox
from itinerary.runtime.store_retry import StoreRetry
from itinerary.schedules.durations import SECOND
from tests.unit.runtime.world import EPOCH, World, played


class Scene:
    """A claimer at work, and a job to claim occurrences of."""

    def __init__(self, world: World, node: NodeNumber, job: JobNumber, revision: int) -> None:
        self.world, self.node, self.job, self.revision = world, node, job, revision
        self.inbox = Inbox(100_000, SECOND, world.log)
        clock = StoreClock(world.elapsed)
        clock.observe(world.now())
        self.claimer = Claimer(world.store, node, Settings(), clock, self.inbox, world.log)

    def wanted(self, count: int) -> list[ClaimRequest]:
        instants = [EPOCH + second * SECOND for second in range(count)]
        return [ClaimRequest(Key(instant, self.job, Kind.SCHEDULED), 1, EPOCH) for instant in instants]

    def starts(self, claimed: Sequence[Claimed]) -> list[StartRequest]:
        return [StartRequest(one.ref, one.fence, 0, "{}", 60 * SECOND, Overlap.ALLOW) for one in claimed]

    async def claimed(self, count: int) -> list[Claimed]:
        """Rows of this node, which are all due."""
        found = await self.world.store.claim(self.node, self.revision, self.wanted(count))
        assert isinstance(found, list)
        return found


@asynccontextmanager
async def claiming(world: World) -> AsyncIterator[Scene]:
    job = await world.register("tick", world.task())
    node = await world.store.join("me", "me", "{}")
    scene = Scene(world, node, job, (await world.store.read(StoreStatusQuery())).revision)
    task = asyncio.create_task(scene.claimer.run())
    await asyncio.sleep(0)
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait([task])


def test_claims_go_in_pieces_and_each_is_answered_with_what_was_won() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            other = await world.store.join("other", "other", "{}")
            await world.store.claim(other, scene.revision, scene.wanted(10))
            scene.claimer.claim(Claim(scene.revision, scene.wanted(2_548)))
            await asyncio.sleep(0.1)
            answers = [message for message in await scene.inbox.receive(0) if isinstance(message, ClaimsAnswered)]
            assert [len(message.wanted) for message in answers] == [CLAIMS_AT_ONCE, CLAIMS_AT_ONCE, 500]
            assert [len(message.answer) for message in answers] == [CLAIMS_AT_ONCE - 10, CLAIMS_AT_ONCE, 500]

    played(story)


def test_starts_go_in_pieces_the_first_of_them_smaller_and_each_is_answered() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            claimed = await scene.claimed(2 * FIRST_STARTS + STARTS_AT_ONCE + 200)
            asked: list[list[Ref]] = []
            start = world.store.start

            async def note(owner: NodeNumber, revision: int, starts: Sequence[StartRequest], after: int) -> Any:
                asked.append([one.ref for one in starts])
                return await start(owner, revision, starts, after)

            world.store.start = note  # type: ignore[method-assign, assignment]  # to see in which order it is asked
            scene.claimer.start(StartRuns(scene.revision, scene.starts(claimed)))
            await asyncio.sleep(0.1)
            assert [len(refs) for refs in asked] == [FIRST_STARTS, FIRST_STARTS, STARTS_AT_ONCE, 200]
            assert [ref for refs in asked for ref in refs] == [one.ref for one in claimed], "in order"
            answers = [message for message in await scene.inbox.receive(0) if isinstance(message, StartsAnswered)]
            # several are on their way at a time, and their answers may overtake each other
            assert sorted([one.ref for one in message.starts] for message in answers) == sorted(asked)
            assert all(isinstance(answer, Started) for message in answers for answer in message.answers)
            scene.claimer.start(StartRuns(scene.revision, scene.starts(claimed[: FIRST_STARTS + 1])))
            await asyncio.sleep(0.1)
            assert [len(refs) for refs in asked[4:]] == [FIRST_STARTS, 1], "nothing is on its way: first again"

    played(story)


@pytest.mark.spec("N2", "plain starts")
def test_what_has_begun_is_told_before_those_are_looked_at_that_may_have_to_wait() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            plain, other = await scene.claimed(2)
            first = AttemptRow(plain.ref, 0, 1, TaskState.RUNNING)
            (start, special) = scene.starts([plain, other])
            begins = marked(replace(start, job=scene.job, instant=plain.key.instant, attempts=(first,)))
            assert begins.is_plain
            assert not special.is_plain
            may_go_on, looked_at = asyncio.Event(), world.store.start

            async def wait(*asked: Any) -> Any:
                await may_go_on.wait()
                return await looked_at(*asked)

            world.store.start = wait  # type: ignore[method-assign, assignment]  # somebody holds what the other needs
            scene.claimer.start(StartRuns(scene.revision, [special, begins]))
            await asyncio.sleep(0.1)
            (told,) = await scene.inbox.receive(0)
            assert isinstance(told, StartsAnswered)
            assert ([one.ref for one in told.starts], [one.ref for one in told.answers]) == ([plain.ref], [plain.ref])
            may_go_on.set()
            (told,) = await scene.inbox.receive(1)
            assert isinstance(told, StartsAnswered)
            assert ([one.ref for one in told.starts], [one.ref for one in told.answers]) == ([other.ref], [other.ref])

    played(story)


@pytest.mark.spec("O2")
def test_a_start_does_not_wait_behind_claims_that_have_time() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            claimed = await scene.claimed(1)
            world.engine.takes = 1.0
            scene.claimer.claim(Claim(scene.revision, scene.wanted(5_000)))
            await asyncio.sleep(0.5)
            scene.claimer.start(StartRuns(scene.revision, scene.starts(claimed)))
            await asyncio.sleep(2.6)  # the configuration, and the start
            kinds = [type(message) for message in await scene.inbox.receive(0)]
            assert StartsAnswered in kinds
            assert kinds.count(ClaimsAnswered) < 5

    played(story)


@pytest.mark.spec("N5")
def test_while_the_store_is_away_it_asks_again_and_what_was_asked_happens_once_it_is_back() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            claimed = await scene.claimed(3)
            world.engine.is_down = True
            scene.claimer.start(StartRuns(scene.revision, scene.starts(claimed)))
            await asyncio.sleep(300.0)
            assert await scene.inbox.receive(0) == []
            world.engine.is_down = False
            (message,) = await scene.inbox.receive(10.0)
            assert isinstance(message, StartsAnswered)
            assert all(isinstance(answer, Started) for answer in message.answers)
            assert len(world.log.said("store.unavailable")) == 1

    played(story)


@pytest.mark.spec("N2", "lost answers")
def test_a_start_whose_answer_was_lost_is_answered_as_the_first_time() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            claimed = await scene.claimed(1)
            scene.claimer.start(StartRuns(scene.revision, scene.starts(claimed)))
            await asyncio.sleep(0)
            world.engine.answers_lost = 2
            (message,) = await scene.inbox.receive(10.0)
            assert isinstance(message, StartsAnswered)
            (answer,) = message.answers
            assert isinstance(answer, Started)
            assert answer.sequence == 1, "started once"

    played(story)


def test_claims_that_no_store_could_take_are_said_to_be_so() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            world.engine.broken_by = StoreError("broken")
            scene.claimer.claim(Claim(scene.revision, scene.wanted(2)))
            assert await scene.inbox.receive(10.0) == [Unclaimable(scene.wanted(2), "broken")]
            world.engine.broken_by = None

    played(story)


def test_starts_that_no_store_could_take_are_refused_each_for_itself() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            starts = scene.starts(await scene.claimed(2))
            world.engine.broken_by = StoreError("broken")
            scene.claimer.start(StartRuns(scene.revision, starts))
            (message,) = await scene.inbox.receive(10.0)
            assert message == StartsAnswered(starts, [Refused(one.ref, Refusal.ILLEGAL, "broken") for one in starts])
            world.engine.broken_by = None

    played(story)


@pytest.mark.spec("N2", "a timeline that moves on")
def test_a_claim_by_a_timeline_that_has_moved_on_says_so() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            await world.register("another", world.task())
            scene.claimer.claim(Claim(scene.revision, scene.wanted(2)))
            assert await scene.inbox.receive(10.0) == [ClaimsAnswered(scene.wanted(2), Refusal.MOVED)]

    played(story)


@pytest.mark.spec("R9", "release")
def test_what_is_given_back_is_written_at_once_in_pieces_that_a_store_takes() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            claimed = [one for _ in range(3) for one in await scene.claimed(4_500)][:12_000]
            scene.claimer.release(Release([TakeoverWrite(one.ref, one.fence, None, "released") for one in claimed]))
            await asyncio.sleep(0.1)
            rows = await world.store.read(ByRefQuery(tuple({one.ref for one in claimed})))
            assert {row.owner for row in rows.values()} == {None}

    played(story)


@pytest.mark.spec("R9", "release")
def test_what_could_not_be_given_back_before_the_claimer_was_ended_is_given_back_then() -> None:
    async def story(world: World) -> None:
        async with claiming(world) as scene:
            (claimed,) = await scene.claimed(1)
            world.engine.is_down = True
            scene.claimer.release(Release([TakeoverWrite(claimed.ref, claimed.fence, None, "released")]))
            await asyncio.sleep(5.0)
        world.engine.is_down = False
        await scene.claimer.release_all(StoreRetry("leaving", world.log))
        row = (await world.store.read(ByRefQuery((Ref(claimed.ref),))))[claimed.ref]
        assert (row.owner, row.fence) == (None, claimed.fence + 1)

    played(story)
