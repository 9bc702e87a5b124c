"""`explain` of what ran, runs, waits or ended badly: each scene is played on real nodes in virtual time, and the whole
sentence compared (U4).

The day begins at noon, 2026-03-28 12:00:00 UTC; jobs are due every minute unless they say otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from itinerary.explain import Cause, RunResult
from itinerary.model.definition import Requirement
from itinerary.model.overrides import OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import OnShutdown, Overlap, Retry
from itinerary.model.queries import NodesQuery
from itinerary.model.reasons import overlaps
from itinerary.model.writes import CancelRequest, SkipRequest
from itinerary.schedules import every, once
from itinerary.schedules.durations import SECOND
from tests.unit.explain.asking import MINUTE, asked, says
from tests.unit.runtime.world import EPOCH, Queueing, World, played

# -- it ran ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("U4", "why it ran")
def test_it_ran_on_time() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=0.052))
        async with world.running(world.node()):
            await world.sleep_until(70)
            found = await asked(world, 60)
        says(
            found,
            RunResult.RAN,
            Cause.ON_TIME,
            "etl, due 2026-03-28 12:01:00 UTC, ran on time. It began at once on node a and completed after 52 ms.",
        )
        assert [(fact.local, fact.what) for fact in found.facts] == [
            ("2026-03-28 12:00:50", "claimed, node a"),
            ("2026-03-28 12:01:00", "due by version 1: Every 1m"),
            ("2026-03-28 12:01:00", "running, node a"),
            ("2026-03-28 12:01:00", "completed, node a"),
        ]
        assert (found.run, found.following, found.advice) == ("etl:1774699260", "2026-03-28T12:02:00Z", None)

    played(story)


@pytest.mark.spec("U4", "ran late: no node")
def test_it_ran_late_behind_another_that_was_late_too() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=0.2), schedule=every("2s"))
        async with world.running(world.node("a")):
            await world.sleep_until(20.5)
        await world.sleep_until(26.5)
        async with world.running(world.node("a")):
            await world.sleep_until(30)
            found = await asked(world, 24)
        says(
            found,
            RunResult.RAN_LATE,
            Cause.NO_NODE,
            "etl, due 2026-03-28 12:00:24 UTC, ran 2.7 s late: no node was there from 12:00:20 to 12:00:26. It began "
            "at 12:00:26 on node a and completed after 200 ms.",
        )
        why = "queued, node a: waits for the run due 12:00:22 (etl:1774699222), which was not running yet when this one"
        assert any(fact.what == f"{why} was due" for fact in found.facts)

    played(story)


@pytest.mark.spec("U4", "ran late: no node")
def test_it_ran_late_since_no_node_was_there_and_was_recovered() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.dying(world.node("a")):
            await world.sleep_until(48)
        await world.sleep_until(600)
        async with world.running(world.node("b")):
            await world.sleep_until(640)
            found = await asked(world, 300)
        says(
            found,
            RunResult.RAN_LATE,
            Cause.NO_NODE,
            "etl, due 2026-03-28 12:05:00 UTC, ran 5 min late: no node was heard of from 12:00:45 to 12:10:00, and it "
            "was recovered by execute_all. It began at 12:10:00 on node b and completed after 0 ms.",
        )
        assert [(fact.local, fact.what) for fact in found.facts] == [
            ("2026-03-28 12:00:45", "node a was last heard of"),
            ("2026-03-28 12:05:00", "due by version 1: Every 1m"),
            ("2026-03-28 12:10:00", "node b joined"),
            ("2026-03-28 12:10:00", "queued: recovered by execute_all: nobody was there at its instant"),
            (
                "2026-03-28 12:10:00",
                "pending, node b: its turn has come: the run due 12:04:00 (etl:1774699440) has ended",
            ),
            ("2026-03-28 12:10:00", "running, node b"),
            ("2026-03-28 12:10:00", "completed, node b"),
        ]

    played(story)


@pytest.mark.spec("U4", "ran late: the store was away")
def test_it_ran_late_since_the_store_did_not_answer() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), overrides=Overrides(overlap=Overlap.ALLOW))
        await world.register("one", world.task())
        async with world.running(world.node()):
            await world.sleep_until(30)
            world.engine.is_down = True
            await world.sleep_until(330)
            world.engine.is_down = False
            await world.sleep_until(400)
            ran = await asked(world, 120)
            queued = await asked(world, 120, "one")
        for name, found in (("etl", ran), ("one", queued)):
            says(
                found,
                RunResult.RAN_LATE,
                Cause.STORE_AWAY,
                f"{name}, due 2026-03-28 12:02:00 UTC, ran 3 min 32 s late: the store did not answer node a from "
                "12:00:30 to 12:05:31, and it was recovered by execute_all. It began at 12:05:32 on node a and "
                "completed after 0 ms.",
            )

    played(story)


@pytest.mark.spec("U4", "ran late: in line")
def test_it_ran_late_since_it_stood_in_line() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=80), overrides=Overrides(overlap=Overlap.QUEUE))
        async with world.running(world.node()):
            await world.sleep_until(70)
            waits = await asked(world, 60)
            await world.sleep_until(175)
            ran = await asked(world, 60)
            behind = await asked(world, 120)
        says(
            waits,
            RunResult.WAITS,
            Cause.IN_LINE,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 10 s: the run due 12:00:00 (etl:1774699200)"
            " is still running, and it is number 1 of 1 in line.",
        )
        says(
            ran,
            RunResult.RAN_LATE,
            Cause.IN_LINE,
            "etl, due 2026-03-28 12:01:00 UTC, ran 20 s late: it stood in line for the run due 12:00:00 "
            "(etl:1774699200), which ended at 12:01:20. It began at 12:01:20 on node a and completed after 1 "
            "min 20 s.",
        )
        says(
            behind,
            RunResult.RUNS,
            Cause.IN_LINE,
            "etl, due 2026-03-28 12:02:00 UTC, runs now: node a runs it, for 15 s so far, and it may take until"
            " 13:02:50. It began 40 s late, at 12:02:40 on node a: it stood in line for the run due 12:01:00 "
            "(etl:1774699260), which ended at 12:02:40.",
        )

    played(story)


@pytest.mark.spec("U4", "no slot")
def test_it_waited_for_a_free_slot() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        await world.register("long", world.task(takes=90), schedule=once("2026-03-28T12:00:30Z"))
        async with world.running(world.node(max_concurrent_jobs=1)):
            await world.sleep_until(70)
            waits = await asked(world, 60)
            await world.sleep_until(125)
            ran = await asked(world, 60)
        says(
            waits,
            RunResult.WAITS,
            Cause.NO_SLOT,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 10 s for a free slot: node a runs as many "
            "occurrences as it may (max_concurrent_jobs).",
        )
        says(
            ran,
            RunResult.RAN_LATE,
            Cause.NO_SLOT,
            "etl, due 2026-03-28 12:01:00 UTC, ran 1 min late: node a had no free slot until 12:02:00. It began"
            " at 12:02:00 on node a and completed after 0 ms.",
        )

    played(story)


@pytest.mark.spec("U4", "limit")
def test_it_waited_for_a_share_of_a_limit() -> None:
    async def story(world: World) -> None:
        limited = Overrides(limits=("api",))
        await world.register("etl", world.task(), overrides=limited)
        await world.register("long", world.task(takes=90), schedule=once("2026-03-28T12:00:30Z"), overrides=limited)
        async with world.running(world.node(limits={"api": 1})):
            await world.sleep_until(70)
            waits = await asked(world, 60)
            await world.sleep_until(130)
            ran = await asked(world, 60)
        says(
            waits,
            RunResult.WAITS,
            Cause.LIMIT,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 10 s: limit api is used up by the run due "
            "12:00:30 (long:1774699230).",
        )
        says(
            ran,
            RunResult.RAN_LATE,
            Cause.LIMIT,
            "etl, due 2026-03-28 12:01:00 UTC, ran 1 min late: limit api was used up until 12:02:00. It began "
            "at 12:02:00 on node a and completed after 0 ms.",
        )

    played(story)


@pytest.mark.spec("U4", "limit")
def test_it_waited_for_its_own_jobs_limit() -> None:
    async def story(world: World) -> None:
        own = Overrides(overlap=Overlap.ALLOW, max_active=1)
        await world.register("etl", world.task(takes=80), overrides=own)
        async with world.running(world.node()):
            await world.sleep_until(70)
            waits = await asked(world, 60)
            await world.sleep_until(165)
            ran = await asked(world, 60)
        says(
            waits,
            RunResult.WAITS,
            Cause.LIMIT,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 10 s: max_active of the job is used up by "
            "the run due 12:00:00 (etl:1774699200).",
        )
        says(
            ran,
            RunResult.RAN_LATE,
            Cause.LIMIT,
            "etl, due 2026-03-28 12:01:00 UTC, ran 20 s late: max_active of the job was used up until 12:01:20."
            " It began at 12:01:20 on node a and completed after 1 min 20 s.",
        )

    played(story)


@pytest.mark.spec("U4", "condition")
def test_it_waited_for_what_it_requires(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wanted = tmp_path / "ready"
        requirement = Requirement(file=str(wanted), every="5s", deadline="1m")
        await world.register("etl", world.task(1.0), schedule=once("2026-03-28T12:01:00Z"), requires=(requirement,))
        async with world.running(world.node()):
            await world.sleep_until(72)
            waits = await asked(world, 60)
            wanted.touch()
            await world.sleep_until(80)
            ran = await asked(world, 60)
        says(
            waits,
            RunResult.WAITS,
            Cause.CONDITION,
            f"etl, due 2026-03-28 12:01:00 UTC, waits: it requires file {wanted}, which is not so yet.",
        )
        says(
            ran,
            RunResult.RAN_LATE,
            Cause.CONDITION,
            f"etl, due 2026-03-28 12:01:00 UTC, ran 15 s late: it waited for file {wanted} until 12:01:15. It began at "
            "12:01:15 on node a and completed after 1 s.",
        )

    played(story)


@pytest.mark.spec("U4", "ran late: another job")
def test_it_waited_for_another_job() -> None:
    async def story(world: World) -> None:
        await world.register("import", world.task(18.0))
        await world.register("etl", world.task(), requires=(Requirement(job="import", every="5s"),))
        async with world.running(world.node()):
            await world.sleep_until(100)
            found = await asked(world, 60)
        says(
            found,
            RunResult.RAN_LATE,
            Cause.CONDITION,
            "etl, due 2026-03-28 12:01:00 UTC, ran 20 s late: it waited for job import until 12:01:20. It began"
            " at 12:01:20 on node a and completed after 0 ms.",
        )

    played(story)


@pytest.mark.spec("U4", "ran late: taken over")
def test_another_node_took_it_over() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node("b")):
            async with world.dying(world.node("a")):
                await world.sleep_until(295)
            await world.sleep_until(320)
            nodes = {row.created_by for row in await world.rows("etl")}
            found = await asked(world, 300)
        assert len(nodes) == 2, "both had some"
        says(
            found,
            RunResult.RAN_LATE,
            Cause.TAKEN_OVER,
            "etl, due 2026-03-28 12:05:00 UTC, ran 3 s late: node a had claimed it and did not begin it, and "
            "node b took it over; node a was last heard of at 12:04:55. It began at 12:05:03 on node b and "
            "completed after 0 ms.",
        )

    played(story)


@pytest.mark.spec("U4", "ran late: a clock jumped")
def test_a_clock_was_set_ahead() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node()):
            await world.sleep_until(90.5)
            world.store_ahead = 3_600 * SECOND
            await world.sleep_until(130.5)
            found = await asked(world, 1_800)
        says(
            found,
            RunResult.RAN_LATE,
            Cause.CLOCK_JUMP,
            "etl, due 2026-03-28 12:30:00 UTC, ran 31 min 36 s late: the time of node a jumped ahead by 1 h, "
            "noted at 13:01:31 (a clock was set: the store's, or this machine's), and it was recovered by "
            "execute_all. It began at 13:01:36 on node a and completed after 0 ms.",
        )

    played(story)


# -- it runs, or ended badly -------------------------------------------------------------------------------------------


@pytest.mark.spec("U4", "runs now")
def test_it_runs_now() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=40))
        async with world.running(world.node()):
            await world.sleep_until(80)
            found = await asked(world, None)
        says(
            found,
            RunResult.RUNS,
            Cause.ON_TIME,
            "etl, due 2026-03-28 12:01:00 UTC, runs now: node a runs it, for 20 s so far, and it may take until"
            " 13:01:10. It began on time, at 12:01:00 on node a.",
        )

    played(story)


async def fail(ctx: Any) -> None:
    """A task that fails."""
    raise ValueError("the API is down")


@pytest.mark.spec("U4", "failed")
def test_a_task_failed() -> None:
    async def story(world: World) -> None:
        retry = {"max_retries": 1, "retry_interval": "20s"}
        await world.register("etl", fail, overrides=read_overrides({"retry": retry}, OverrideLevel.JOB))
        async with world.running(world.node()):
            await world.sleep_until(70)
            waits = await asked(world, 60)
            await world.sleep_until(90)
            failed = await asked(world, 60)
        says(
            waits,
            RunResult.WAITS,
            Cause.RETRY,
            "etl, due 2026-03-28 12:01:00 UTC, waits to be tried again: task main, attempt 2 of 2, at 12:01:20,"
            " since attempt 1 failed: ValueError: the API is down. It began on time, at 12:01:00 on node a.",
        )
        says(
            failed,
            RunResult.FAILED,
            Cause.TASK,
            "etl, due 2026-03-28 12:01:00 UTC, failed: task main failed after 2 attempts: ValueError: the API "
            "is down. It began on time, at 12:01:00 on node a.",
        )
        assert failed.advice == "to run it again: itinerary replay etl:1774699260"

    played(story)


@pytest.mark.spec("U4", "timed out")
def test_it_timed_out() -> None:
    async def story(world: World) -> None:
        await world.register(
            "etl", world.task(50), overrides=read_overrides({"execution_timeout": "10s"}, OverrideLevel.JOB)
        )
        await world.register(
            "one", world.task(50), overrides=read_overrides({"task_timeout": "10s"}, OverrideLevel.JOB)
        )
        async with world.running(world.node()):
            await world.sleep_until(90)
            whole = await asked(world, 60)
            task = await asked(world, 60, "one")
        says(
            whole,
            RunResult.FAILED,
            Cause.TIMEOUT,
            "etl, due 2026-03-28 12:01:00 UTC, timed out: over its execution timeout of 10s. It began on time, "
            "at 12:01:00 on node a.",
        )
        says(
            task,
            RunResult.FAILED,
            Cause.TIMEOUT,
            "one, due 2026-03-28 12:01:00 UTC, timed out: task main timed out. It began on time, at 12:01:00 on"
            " node a.",
        )

    played(story)


@pytest.mark.spec("U4", "cancelled")
def test_somebody_cancelled_it() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(50))
        async with world.running(world.node()):
            await world.sleep_until(70)
            (row,) = [row for row in await world.due("etl") if row.instant == EPOCH + MINUTE]
            await world.store.control(None, [CancelRequest(row.ref, "anna: not needed")])
            await world.sleep_until(75)
            running = await asked(world, 60)
            await world.sleep_until(112)
            (row,) = [row for row in await world.rows("etl") if row.instant == EPOCH + 2 * MINUTE]
            await world.store.control(None, [CancelRequest(row.ref, "anna: not needed")])
            await world.sleep_until(125)
            unbegun = await asked(world, 120)
        says(
            running,
            RunResult.CANCELLED,
            Cause.PERSON,
            "etl, due 2026-03-28 12:01:00 UTC, was cancelled at 12:01:10, 10 s after it began, by anna: not "
            "needed. It began on time, at 12:01:00 on node a.",
        )
        says(
            unbegun,
            RunResult.CANCELLED,
            Cause.PERSON,
            "etl, due 2026-03-28 12:02:00 UTC, was cancelled at 12:01:52, before it began, by anna: not needed.",
        )

    played(story)


@pytest.mark.spec("U4", "cancelled")
def test_its_node_was_shut_down() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(500), overrides=Overrides(on_shutdown=OnShutdown.CANCEL))
        async with world.running(world.node()):
            await world.sleep_until(10)
        found = await asked(world, 0)
        says(
            found,
            RunResult.CANCELLED,
            Cause.SHUTDOWN,
            "etl, due 2026-03-28 12:00:00 UTC, was cancelled at 12:00:10, 10 s after it began: node a was shut "
            "down. It began on time, at 12:00:00 on node a.",
        )

    played(story)


@pytest.mark.spec("U4", "interrupted")
@pytest.mark.spec("R9", "rerun")
def test_its_node_was_shut_down_and_another_ran_it_again() -> None:
    async def story(world: World) -> None:
        once_only = every("1h", start="2026-03-28T12:00:00Z")
        overrides = Overrides(on_shutdown=OnShutdown.RERUN, retry=Retry(2, "1s"))
        await world.register("etl", world.task(20), schedule=once_only, overrides=overrides)
        async with world.running(world.node("a")):
            await world.sleep_until(10)
        await world.sleep_until(30)
        waiting = await asked(world, 0)
        says(
            waiting,
            RunResult.WAITS,
            Cause.SHUTDOWN,
            "etl, due 2026-03-28 12:00:00 UTC, waits for a node: node a was shut down at 12:00:10, and no node has "
            "continued it yet.",
        )
        assert waiting.advice is not None
        assert waiting.advice.startswith("start a node")
        async with world.running(world.node("b")):
            await world.sleep_until(40)
            running = await asked(world, 0)
            await world.sleep_until(60)
            found = await asked(world, 0)
        assert "It began on time, at 12:00:00 on node a. Node a was shut down at 12:00:10, and node b ran it from" in (
            running.verdict
        )
        says(
            found,
            RunResult.RAN,
            Cause.ON_TIME,
            "etl, due 2026-03-28 12:00:00 UTC, ran on time. It began at once on node a and completed after 50 s. Node "
            "a was shut down at 12:00:10, and node b ran it from 12:00:30.",
        )
        told = [fact.what for fact in found.facts]
        assert "task main, attempt 1 was cancelled: cancelled: node a was shut down" in told
        why = "node a was shut down while it ran; another node, or the next start, runs it again"
        assert f"retrying, node a: {why}" in told

    played(story)


@pytest.mark.spec("U4", "interrupted")
@pytest.mark.spec("R9", "release")
def test_its_node_was_shut_down_before_it_called_its_function() -> None:
    async def story(world: World) -> None:
        once_only = every("1h", start="2026-03-28T12:00:10Z")
        await world.register("etl", world.task(5), schedule=once_only)
        first = world.node("a", Queueing(world))
        async with world.running(first):
            await world.sleep_until(12)
        await world.sleep_until(100)
        async with world.running(world.node("b")):
            await world.sleep_until(120)
            found = await asked(world, 10)
        says(
            found,
            RunResult.RAN_LATE,
            Cause.SHUTDOWN,
            "etl, due 2026-03-28 12:00:10 UTC, ran 1 min 30 s late: node a was shut down before its function was "
            "called, and no node ran it until 12:01:40. It began at 12:01:40 on node b and completed after 5 s. Node "
            "a was shut down at 12:00:32 before its function was called, and node b ran it from 12:01:40.",
        )

    played(story)


@pytest.mark.spec("U4", "orphaned")
def test_its_node_died() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(500))
        async with world.dying(world.node("a")):
            await world.sleep_until(12)
        async with world.running(world.node("b")):
            await world.sleep_until(50)
            found = await asked(world, 0)
        says(
            found,
            RunResult.FAILED,
            Cause.ORPHANED,
            "etl, due 2026-03-28 12:00:00 UTC, was given up as orphaned: node a is gone, and nobody knows how "
            "far it came. It began on time, at 12:00:00 on node a. Node a was last heard of at 12:00:10.",
        )

    played(story)


@pytest.mark.spec("U4", "no death that did not happen")
def test_a_node_that_was_silent_and_is_heard_of_again_is_not_said_to_have_died() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(500))
        async with world.dying(world.node("a")):
            await world.sleep_until(12)
        (owner,) = [node.number for node in await world.store.read(NodesQuery())]
        async with world.running(world.node("b")):
            await world.sleep_until(50)
            await world.store.beat(owner)
            found = await asked(world, 0)
        says(
            found,
            RunResult.FAILED,
            Cause.ORPHANED,
            "etl, due 2026-03-28 12:00:00 UTC, was given up as orphaned: node a was silent, and taken for dead, and "
            "nobody knows how far it came. It began on time, at 12:00:00 on node a. Node a had not died: it was heard "
            "of later, at 12:00:50.",
        )

    played(story)


@pytest.mark.spec("U4", "no death that did not happen")
def test_a_run_whose_node_is_silent_is_not_said_to_run() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(500))
        async with world.dying(world.node("a")):
            await world.sleep_until(12)
        await world.sleep_until(50)
        found = await asked(world, 0)
        assert "has begun, and may still run: node a has it, and was last heard of at 12:00:10" in found.verdict

    played(story)


@pytest.mark.spec("U4", "no death that did not happen")
def test_an_instant_that_waits_for_the_silence_of_a_node_says_so_and_then_why_it_was_late() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(500), schedule=every("20s"))
        async with world.dying(world.node("a")):
            await world.sleep_until(12)
        async with world.running(world.node("b")):
            await world.sleep_until(25)
            waits = await asked(world, 20)
            await world.sleep_until(60)
            late = await asked(world, 20)
        says(
            waits,
            RunResult.WAITS,
            Cause.UNSURE,
            "etl, due 2026-03-28 12:00:20 UTC, has been waiting for 5 s: it waits to learn what became of the run due "
            "12:00:00 (etl:1774699200): node a has not been heard of since.",
        )
        assert (late.fate, late.cause) == (RunResult.RUNS, Cause.UNSURE)
        assert "it waited to learn what became of the run due 12:00:00 (etl:1774699200), which was open until" in (
            late.verdict
        )

    played(story)


@pytest.mark.spec("U4", "no death that did not happen")
def test_a_dead_run_is_not_said_to_have_been_still_running() -> None:
    """A store may hold such a skip from before nodes waited: its row says that it overlaps the dead run."""

    async def story(world: World) -> None:
        await world.register("etl", world.task(500), schedule=every("20s"))
        async with world.dying(world.node("a")):
            await world.sleep_until(12)
        orphan, *_ = await world.rows("etl")
        async with world.running(world.node("b")):
            await world.sleep_until(25)
            (second,) = [row for row in await world.rows("etl") if row.instant == EPOCH + 20 * SECOND]
            await world.store.control(None, [SkipRequest(second.ref, overlaps(orphan.ref))])
            before = await asked(world, 20)
            await world.sleep_until(60)
            after = await asked(world, 20)
        unknown = (
            "etl, due 2026-03-28 12:00:20 UTC, did not run: the run due 12:00:00 (etl:1774699200) was on record as "
            "running, begun at 12:00:00, though node a was not heard of after 12:00:10"
        )
        assert before.verdict.startswith(unknown)
        assert after.verdict.startswith(f"{unknown}, and it was given up at 12:00:")

    played(story)


@pytest.mark.spec("U4", "overlapped")
def test_a_run_that_had_not_begun_is_not_said_to_have_been_still_running() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(1), schedule=every("5s"))
        async with world.running(world.node("a")):
            await world.sleep_until(12)
            rows = {(row.instant - EPOCH) // SECOND: row for row in await world.rows("etl")}
            await world.store.control(None, [SkipRequest(rows[20].ref, overlaps(rows[15].ref))])
            before = await asked(world, 20)
            await world.sleep_until(25)
            after = await asked(world, 20)
        not_begun = (
            "etl, due 2026-03-28 12:00:20 UTC, did not run: the run due 12:00:15 (etl:1774699215) had its turn and had "
            "not begun yet"
        )
        assert before.verdict.startswith(f"{not_begun}.")
        assert after.verdict.startswith(f"{not_begun}; it began at 12:00:15.")

    played(story)
