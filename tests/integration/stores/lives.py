"""What a process under test does with a store, from its birth to its end, or to its kill.

`work` is a node in small: three lanes side by side, each of which registers jobs and changes them, claims occurrences,
starts them, retries, ends them, cancels, appends events, and rescues what the lives before it left behind. Whatever it
asks for it announces, with the traces that will be found in the store if it happens (see `line` and `witness`):

    node <incarnation>      occurrence <instant> <job>      entry <job> <request>      event <cause>
    write <ref> <sequence>  at least so many writes         fence <ref> <fence>        at least this fence

A task and its attempts carry the number of the write that wrote them last: a write that is there in part shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from itinerary.errors import StoreError
from itinerary.model.events import NewEvent
from itinerary.model.occurrence import Kind
from itinerary.model.policies import Overlap
from itinerary.model.queries import ActiveQuery, JobsByNameQuery, StoreStatusQuery
from itinerary.model.rows import AttemptRow, EntryKind, JobNumber, Key, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.model.timeline import EntryAccepted, TimelineEntryRequest
from itinerary.model.writes import (
    CancelRequest,
    Claimed,
    ClaimRequest,
    Limit,
    OwnerWrite,
    Refusal,
    Refused,
    Started,
    StartRequest,
    Step,
    TakeoverWrite,
    Written,
)
from itinerary.schedules.durations import SECOND
from itinerary.stores import open_store
from itinerary.stores.store import EngineStore
from tests.integration.stores import sidelives
from tests.integration.stores.line import Line

__all__ = ["KINDS", "STORIES"]

Story = Callable[..., Coroutine[Any, Any, None]]

KINDS: Final = {"skip": Overlap.SKIP, "queue": Overlap.QUEUE, "allow": Overlap.ALLOW}
"""What each lane's three jobs do about overlap; the last one has a limit of its own."""
_LANES: Final = 3
_EPOCH: Final = 1_700_000_000 * SECOND
_FUTURE: Final = 4_000_000_000 * SECOND
_HOUR: Final = 3_600 * SECOND
_ROUNDS: Final = 1_000


async def work(url: str, line: Line, *, life: int, rounds: int = _ROUNDS, lanes: int = _LANES) -> None:
    """A node, until it is killed or has done so many rounds."""
    store = open_store(url)
    try:
        await store.open()
    except StoreError as error:
        line.say(unopened=f"{type(error).__name__}: {error}")
        return
    line.say(opened=True)
    name = f"life {life}"
    node = await line.ask([f"node {name}"], lambda: store.join(name, "node", "{}"))
    async with asyncio.TaskGroup() as group:
        for number in range(lanes):
            group.create_task(_Lane(store, line, node, life, number).live(rounds))
    await store.close()
    line.say(closed=True)


class _Lane:
    """One of the things that a node does at a time."""

    def __init__(self, store: EngineStore, line: Line, node: NodeNumber, life: int, number: int) -> None:
        self.store, self.line, self.node, self.life, self.number = store, line, node, life, number
        self.jobs: dict[str, JobNumber] = {}
        self.revision = 0
        self._instants = 0

    async def live(self, rounds: int) -> None:
        await self._register()
        await self._rescue()
        for number in range(rounds):
            await self._round(number)
            if number % 3 == 2:
                await self._register()

    # -- the timeline ------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        """Register the jobs, or give each a new version, and change a calendar with them."""
        names = tuple(f"lane {self.number} {kind}" for kind in KINDS)
        known = await self.store.read(JobsByNameQuery(names))
        entries = [
            TimelineEntryRequest(
                job=name,
                kind=EntryKind.VERSION,
                request=f"life {self.life} from {known[name].version if name in known else 0}",
                by="test",
                from_version=known[name].version if name in known else 0,
                body="{}",
            )
            for name in names
        ]
        request = f"lane {self.number} {entries[0].request}"
        entries.append(
            TimelineEntryRequest(job="", kind=EntryKind.PRUNE, request=request, by="test", subject="x", body="[]")
        )
        traces = [f"entry {entry.job} {entry.request}" for entry in entries]
        answers = await self.line.ask(traces, lambda: self.store.amend(entries), _revision)
        for kind, answer in zip(KINDS, answers, strict=False):
            assert isinstance(answer, EntryAccepted), answer
            self.jobs[kind] = answer.job
            self.revision = answer.revision

    async def _rescue(self) -> None:
        """Take what lives before this one have left behind, and end it."""
        for job in self.jobs.values():
            left = await self.store.read(ActiveQuery(job))
            if not left:
                continue
            traces = [f"fence {row.ref} {row.fence + 1}" for row in left]
            ends = [TakeoverWrite(row.ref, row.fence, _end_of(row), "its node is dead") for row in left]
            answers = await self.line.ask(traces, partial(self.store.intervene, self.node, ends))
            assert all(isinstance(answer, Written) for answer in answers), answers

    # -- the life of occurrences -------------------------------------------------------------------------------------

    async def _round(self, number: int) -> None:
        claimed = await self._claim([*(job for job in self.jobs.values() for _ in range(2)), self.jobs["skip"]])
        future = claimed.pop()
        firsts, seconds = claimed[0::2], claimed[1::2]
        answers = await self._start([*firsts, *seconds], sequence=1)
        started = [answer for answer in answers[:3] if isinstance(answer, Started)]
        assert len(started) == 3, answers
        whys = [answer.why for answer in answers[3:] if isinstance(answer, Refused)]
        assert whys == [Refusal.SKIPPED, Refusal.QUEUED, Refusal.LIMITED], answers
        _, queued, limited = seconds
        await self._write([_retried(one.ref, one.fence, one.sequence + 1) for one in started])
        ends = [_ended(one.ref, one.fence, one.sequence + 2) for one in started]
        await self._write(ends, f"write {queued.ref} 2", f"fence {queued.ref} {queued.fence + 1}")
        await self._cancel(future)
        for one, sequence in ((queued, 3), (limited, 2)):
            (answer,) = await self._start([one], sequence=sequence, fence=None)
            assert isinstance(answer, Started), answer
            await self._write([_ended(answer.ref, answer.fence, answer.sequence + 1)])
        await self._tell_of(number)

    async def _claim(self, jobs: Sequence[JobNumber]) -> list[Claimed]:
        """One occurrence for each of these, the last of them far ahead."""
        wanted = []
        for job in jobs:
            self._instants += 1
            instant = _EPOCH + ((self.life * 1_000 + self._instants) * _LANES + self.number) * SECOND
            wanted.append(ClaimRequest(Key(instant, job, Kind.SCHEDULED), 1, instant))
        last = wanted[-1].key
        wanted[-1] = ClaimRequest(last._replace(instant=last.instant + _FUTURE), 1, last.instant + _FUTURE)
        traces = [f"occurrence {item.key.instant} {item.key.job}" for item in wanted]

        def found(answer: list[Claimed] | Refusal) -> list[str] | None:
            if isinstance(answer, Refusal):
                return None
            return [f"ref {one.ref} {one.key.instant} {one.key.job}" for one in answer]

        answer: list[Claimed] | Refusal = Refusal.MOVED
        while isinstance(answer, Refusal):
            await self._read_on()
            answer = await self.line.ask(traces, lambda: self.store.claim(self.node, self.revision, wanted), found)
        by_key = {one.key: one for one in answer}
        return [by_key[item.key] for item in wanted]

    async def _start(
        self, claimed: Sequence[Claimed], *, sequence: int, fence: int | None = 1
    ) -> list[Started | Refused]:
        kinds = {ref: kind for kind, ref in self.jobs.items()}
        starts = []
        for one in claimed:
            kind = kinds[one.key.job]
            limits = (Limit(f"limit {self.number}", 1),) if kind == "allow" else ()
            tasks, attempts = _first(one.ref, sequence)
            starts.append(
                StartRequest(
                    one.ref, fence, 0, '{"x":1}', _HOUR, KINDS[kind], limits=limits, tasks=tasks, attempts=attempts
                )
            )
        traces = [f"write {one.ref} {sequence}" for one in claimed]

        def found(answers: list[Started | Refused]) -> list[str] | None:
            return None if _is_moved(answers) else []

        while True:
            await self._read_on()
            answers = await self.line.ask(
                traces, lambda: self.store.start(self.node, self.revision, starts, _HOUR * 10**6), found
            )
            if not _is_moved(answers):
                return answers

    async def _write(self, changes: Sequence[OwnerWrite], *more: str) -> None:
        traces = [f"write {change.ref} {change.sequence}" for change in changes]
        answers = await self.line.ask([*traces, *more], lambda: self.store.write(self.node, changes))
        assert all(isinstance(answer, Written) for answer in answers), answers

    async def _cancel(self, claimed: Claimed) -> None:
        request = CancelRequest(claimed.ref, "test: not needed")
        await self.line.ask([f"write {claimed.ref} 1"], lambda: self.store.control(None, [request]))

    async def _tell_of(self, number: int) -> None:
        causes = [f"{self.life}/{self.number}/{number}/{part}" for part in range(3)]
        events = [NewEvent(kind="happened", record=f"of {self.number}", cause=cause) for cause in causes]
        await self.line.ask(
            [f"event {cause}" for cause in causes],
            lambda: self.store.append("log", str(self.number), events),
            lambda numbers: [f"event {cause} {at}" for cause, at in zip(causes, _numbers(numbers), strict=True)],
        )

    async def _read_on(self) -> None:
        self.revision = (await self.store.read(StoreStatusQuery())).revision


def _is_moved(answers: Sequence[object]) -> bool:
    return any(isinstance(answer, Refused) and answer.why is Refusal.MOVED for answer in answers)


def _numbers(answer: list[int] | Refusal) -> list[int]:
    assert not isinstance(answer, Refusal)
    return answer


def _revision(answers: Sequence[object]) -> list[str]:
    return [f"revision {answer.revision}" for answer in answers if isinstance(answer, EntryAccepted)]


def _end_of(row: OccurrenceRow) -> OccurrenceState:
    return OccurrenceState.CANCELLED if row.started_at is None else OccurrenceState.ORPHANED


def _first(ref: Ref, sequence: int) -> tuple[tuple[TaskRow, ...], tuple[AttemptRow, ...]]:
    task = TaskRow(ref, 0, "main", TaskState.RUNNING, result=str(sequence))
    return (task,), (AttemptRow(ref, 0, 1, TaskState.RUNNING, 1, output=str(sequence)),)


def _retried(ref: Ref, fence: int, sequence: int) -> OwnerWrite:
    said = str(sequence)
    return OwnerWrite(
        ref,
        fence,
        sequence,
        tasks=(TaskRow(ref, 0, "main", TaskState.RUNNING, 1, result=said),),
        attempts=(
            AttemptRow(ref, 0, 1, TaskState.FAILED, 1, 2, "it failed", said),
            AttemptRow(ref, 0, 2, TaskState.RUNNING, 3, output=said),
        ),
    )


def _ended(ref: Ref, fence: int, sequence: int) -> OwnerWrite:
    said = str(sequence)
    number = 2 if sequence == 3 else 1
    return OwnerWrite(
        ref,
        fence,
        sequence,
        steps=(Step(OccurrenceState.COMPLETED),),
        tasks=(TaskRow(ref, 0, "main", TaskState.SUCCESS, number - 1, result=said),),
        attempts=(AttemptRow(ref, 0, number, TaskState.SUCCESS, 1, 4, output=said),),
    )


STORIES: dict[str, Story] = {"work": work, **sidelives.STORIES}
