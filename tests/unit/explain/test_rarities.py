"""`explain` of what happens rarely: what nobody ended, what is lost, what failed in part, what only its output says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from itinerary.core.timeline.timeline import Timeline
from itinerary.explain import Cause, RunResult
from itinerary.explain.context import ExplainContext, OccurrenceContext
from itinerary.explain.formatting import LocalTime
from itinerary.explain.node_presence import NodePresence
from itinerary.explain.occurrences import explained_occurrence
from itinerary.model.occurrence import Kind
from itinerary.model.overrides import Overrides
from itinerary.model.policies import Failure, Overlap
from itinerary.model.queries import Detail
from itinerary.model.rows import AttemptRow, JobNumber, JobRow, NodeNumber, OccurrenceRow, Ref, TaskRow
from itinerary.model.states import OccurrenceState, TaskState
from itinerary.schedules import every
from itinerary.schedules.durations import SECOND
from itinerary.schedules.zones import UTC
from itinerary.stores.tables import OCCURRENCES
from tests.unit.explain.asking import MINUTE, asked, says
from tests.unit.runtime.test_reaper import JOB, ran_over_its_time
from tests.unit.runtime.world import EPOCH, World, played


@pytest.mark.spec("U4", "timed out")
def test_what_nobody_ended_was_given_up() -> None:
    async def story(world: World) -> None:
        row = await ran_over_its_time(world)
        says(
            await asked(world, (row.instant - EPOCH) // SECOND, JOB),
            RunResult.FAILED,
            Cause.TIMEOUT,
            "job, due 2026-03-28 12:00:10 UTC, timed out and was given up: nobody ended it within 1m10s of its "
            "start. It began on time, at 12:00:10 on node a. No end of it was written, so it is not known whether its "
            "work was done.",
        )

    played(story)


@pytest.mark.spec("U4", "lost")
def test_what_somebody_deleted_by_hand_is_said_to_be_lost() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node()):
            await world.sleep_until(400)
        (row,) = [row for row in await world.rows("etl") if row.instant == EPOCH + MINUTE]
        await world.engine.engine.write(lambda tx: tx.remove(OCCURRENCES, [(row.ref,)]))
        found = await asked(world, 60)
        says(
            found,
            RunResult.UNKNOWN,
            Cause.LOST,
            "etl, due 2026-03-28 12:01:00 UTC, is lost: the store has nothing about it, though everything up to"
            " 12:06:33 is decided. This must never be.",
        )
        assert found.advice == "to see whether more is lost: itinerary audit"

    played(story)


@pytest.mark.spec("U4", "failed")
def test_one_that_completed_with_errors_says_which() -> None:
    async def story(world: World) -> None:
        async def work(ctx: Any) -> None:
            await asyncio.sleep(1.0)
            if ctx.task == "first":
                raise ValueError("no")

        await world.register("etl", work, tasks=("first", "second"), overrides=Overrides(failure=Failure.CONTINUE))
        async with world.running(world.node()):
            await world.sleep_until(70)
            found = await asked(world, 60)
        says(
            found,
            RunResult.RAN,
            Cause.ON_TIME,
            "etl, due 2026-03-28 12:01:00 UTC, ran on time. It began at once on node a and completed with "
            "errors after 2 s: task first failed: ValueError: no.",
        )

    played(story)


@pytest.mark.spec("U4", "version not in force")
def test_a_version_that_was_to_come_had_it() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("20m"))
        later = EPOCH + 600 * SECOND
        await world.enter("etl", '{"schedule": {"every": "5m"}}', from_version=1, effective_from=later)
        async with world.running(world.node()):
            await world.sleep_until(400)
            found = await asked(world, 300)
        says(
            found,
            RunResult.NOT_DUE,
            Cause.VERSION,
            "etl at 2026-03-28 12:05:00 UTC was not due: version 1 was in force then (since 12:00:00, by test);"
            " version 2 has it (in force since 12:10:00, by test). The nearest instants are 12:00:00 and "
            "12:10:00.",
        )

    played(story)


@pytest.mark.spec("U4", "no node")
def test_a_node_that_has_just_died_is_missed_before_it_is_known_to_be_dead() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.dying(world.node()):
            await world.sleep_until(52)
        await world.sleep_until(62)
        says(
            await asked(world, 60),
            RunResult.WAITS,
            Cause.UNDECIDED,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 2 s: no node has come to it yet; node a was"
            " last heard of at 12:00:50.",
        )

    played(story)


@pytest.mark.spec("U4", "overlapped, by which")
def test_one_that_stood_in_line_and_was_replaced_says_by_which_and_for_whom_it_had_waited() -> None:
    async def story(world: World) -> None:
        stubborn = Overrides(overlap=Overlap.REPLACE)

        async def work(ctx: Any) -> None:
            try:
                await asyncio.sleep(100.0)
            except asyncio.CancelledError:
                await asyncio.sleep(100.0)  # it does not end when it is asked to
                raise

        await world.register("etl", work, schedule=every("5s"), overrides=stubborn)
        async with world.running(world.node(kill_grace=12 * SECOND)):
            await world.sleep_until(11)
            found = await asked(world, 5)
            await world.sleep_until(30)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.REPLACED,
            "etl, due 2026-03-28 12:00:05 UTC, did not run: the run due 12:00:10 (etl:1774699210) took its "
            "place (overlap is replace). That was decided 5 s late, at 12:00:10: it stood in line for the run "
            "due 12:00:00 (etl:1774699200).",
        )

    played(story)


@pytest.mark.spec("U4", "failed")
def test_the_end_of_what_a_failed_attempt_printed_is_among_the_facts() -> None:
    row = OccurrenceRow(
        Ref(1),
        EPOCH,
        JobNumber(1),
        Kind.SCHEDULED,
        "",
        1,
        EPOCH,
        is_recovery=False,
        priority=0,
        created_at=EPOCH,
        created_by=NodeNumber(1),
        status=OccurrenceState.FAILED,
        owner=NodeNumber(1),
        fence=1,
        started_at=EPOCH,
        ended_at=EPOCH + SECOND,
        reason="task dump failed: it ended with code 1",
    )
    printed = "".join(f"line {number}\n" for number in range(9))
    attempt = AttemptRow(Ref(1), 0, 1, TaskState.FAILED, EPOCH, EPOCH + SECOND, "it ended with code 1", printed)
    detail = Detail(row, None, (TaskRow(Ref(1), 0, "dump", TaskState.FAILED),), (attempt,), ())
    job = JobRow(JobNumber(1), "backup", EPOCH, 1, EPOCH)
    timeline = Timeline.of([], [job])
    scene = ExplainContext(job, timeline, EPOCH + MINUTE, EPOCH, NodePresence([], EPOCH), LocalTime(UTC, EPOCH))
    facts = explained_occurrence(OccurrenceContext(scene, EPOCH, detail)).facts
    assert facts[-1].what == "the end of its output: line 4 / line 5 / line 6 / line 7 / line 8"
    assert "task dump, attempt 1 failed: it ended with code 1" in [fact.what for fact in facts]
