"""`explain` of what was due and did not run, each cause with its scene and its whole sentence (U4)."""

from __future__ import annotations

import pytest

from itinerary.explain import Cause, RunResult
from itinerary.jobs.declaration import DeclarationContext
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.overrides import NOTHING, OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import Overlap, Recovery, UpdatePolicy
from itinerary.model.rows import EntryKind
from itinerary.operations.job_updates import DefinitionChange, Updates
from itinerary.read.timeline_view import NodeView
from itinerary.schedules import cron, every
from tests.unit.explain.asking import MINUTE, asked, changes, enter, says
from tests.unit.runtime.world import EPOCH, World, played

# -- it was decided that it does not run -------------------------------------------------------------------------------


@pytest.mark.spec("U4", "paused")
def test_its_job_was_paused() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30)
            await changes(world, node).pause("etl", "migration", None)
            await world.sleep_until(70)
            paused = await asked(world, 60)
            to_come = await asked(world, 120)
            newest = await asked(world, None)
            await changes(world, node).resume("etl", None)
            await world.sleep_until(130)
            resumed = await asked(world, 60)
        says(
            paused,
            RunResult.DID_NOT_RUN,
            Cause.PAUSED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the job was paused by anna since 12:00:30: migration.",
        )
        assert paused.advice == "to have it run again: itinerary resume etl"
        says(
            to_come,
            RunResult.TO_COME,
            Cause.PAUSED,
            "etl, due 2026-03-28 12:02:00 UTC, is to come in 50 s, and will be skipped: the job is paused by "
            "anna since 12:00:30: migration.",
        )
        says(
            newest,
            RunResult.DID_NOT_RUN,
            Cause.PAUSED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the job was paused by anna since 12:00:30: "
            "migration. Nothing more is to come until that ends.",
        )
        assert (resumed.verdict, resumed.advice) == (paused.verdict, None)

    played(story)


@pytest.mark.spec("U4", "paused")
def test_a_long_pause_is_one_stretch_and_each_instant_in_it_is_explained() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("1s"))
        await world.sleep_until(1)
        await enter(world, EntryKind.PAUSE, reason="migration")
        await world.sleep_until(7_000)
        async with world.running(world.node()):
            await world.sleep_until(7_060)
            found = await asked(world, 3_600)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.PAUSED,
            "etl, due 2026-03-28 13:00:00 UTC, did not run: the job was paused by anna since 12:00:01: migration.",
        )
        assert any(fact.what.startswith("one row stands for") for fact in found.facts)

    played(story)


@pytest.mark.spec("U4", "stopped")
def test_its_job_was_stopped() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(52)
            await changes(world, node).stop("etl", "migration")
            await world.sleep_until(200)
            claimed = await asked(world, 60)
            later = await asked(world, 120)
            newest = await asked(world, None)
        says(
            claimed,
            RunResult.DID_NOT_RUN,
            Cause.STOPPED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the job was stopped by anna since 12:00:52: migration.",
        )
        says(
            later,
            RunResult.DID_NOT_RUN,
            Cause.STOPPED,
            "etl at 2026-03-28 12:02:00 UTC did not run, and was not expected to: the job was stopped by anna "
            "since 12:00:52: migration. The last instant before that is 12:00:00.",
        )
        says(
            newest,
            RunResult.DID_NOT_RUN,
            Cause.STOPPED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the job was stopped by anna since 12:00:52: "
            "migration. Nothing more is to come until that ends.",
        )

    played(story)


@pytest.mark.spec("U4", "removed")
def test_its_job_was_removed() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node()):
            await world.sleep_until(30)
            await enter(world, EntryKind.REMOVE, reason="not needed any more")
            await world.sleep_until(200)
            found = await asked(world, 120)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.REMOVED,
            "etl at 2026-03-28 12:02:00 UTC did not run, and was not expected to: the job was removed by anna "
            "at 12:00:30: not needed any more. The last instant before that is 12:00:00.",
        )

    played(story)


@pytest.mark.spec("U4", "skipped by name")
def test_somebody_had_this_one_skipped() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(30)
            await changes(world, node).skip("etl", EPOCH + MINUTE, "holiday")
            to_come = await asked(world, 60)
            await world.sleep_until(70)
            found = await asked(world, 60)
        says(
            to_come,
            RunResult.TO_COME,
            Cause.SKIPPED,
            "etl, due 2026-03-28 12:01:00 UTC, is to come in 30 s, and will be skipped: this one is to be "
            "skipped by anna: holiday.",
        )
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.SKIPPED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: this one was skipped by anna: holiday.",
        )

    played(story)


@pytest.mark.spec("U4", "overlapped, by which")
def test_another_run_of_its_job_was_in_the_way() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=80))
        async with world.running(world.node()):
            await world.sleep_until(70)
            while_it_runs = await asked(world, 60)
            await world.sleep_until(90)
            found = await asked(world, 60)
        says(
            while_it_runs,
            RunResult.DID_NOT_RUN,
            Cause.OVERLAPPED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the run due 12:00:00 (etl:1774699200) was still "
            "running, from 12:00:00 on.",
        )
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.OVERLAPPED,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: the run due 12:00:00 (etl:1774699200) was still "
            "running, from 12:00:00 to 12:01:20.",
        )
        assert found.advice == 'to have it wait instead, set overlap = "queue"'

    played(story)


@pytest.mark.spec("U4", "overlapped, by which")
def test_the_line_was_full() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=200), overrides=Overrides(overlap=Overlap.QUEUE, max_queued=1))
        async with world.running(world.node()):
            await world.sleep_until(130)
            found = await asked(world, 120)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.OVERLAPPED,
            "etl, due 2026-03-28 12:02:00 UTC, did not run: the run due 12:00:00 (etl:1774699200) was still "
            "running, from 12:00:00 on, and 1 stand in line already.",
        )

    played(story)


@pytest.mark.spec("U4", "overlapped, by which")
def test_a_newer_run_took_its_place() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(takes=80), overrides=Overrides(overlap=Overlap.REPLACE))
        async with world.running(world.node()):
            await world.sleep_until(70)
            found = await asked(world, 0)
        says(
            found,
            RunResult.CANCELLED,
            Cause.REPLACED,
            "etl, due 2026-03-28 12:00:00 UTC, was cancelled at 12:01:00, 1 min after it began: the run due "
            "12:01:00 (etl:1774699260) took its place (overlap is replace). It began on time, at 12:00:00 on "
            "node a.",
        )

    played(story)


@pytest.mark.spec("U4", "missed: no node from when to when")
@pytest.mark.parametrize(
    ("strategy", "then"),
    [
        (Recovery.MARK_AS_MISSED, "its recovery is mark_as_missed"),
        (Recovery.EXECUTE_LAST, "execute_last runs only the last one"),
    ],
)
def test_it_was_missed(strategy: Recovery, then: str) -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), overrides=read_overrides({"recovery": strategy}, OverrideLevel.JOB))
        async with world.running(world.node("a")):
            await world.sleep_until(30)
        await world.sleep_until(600)
        async with world.running(world.node("b")):
            await world.sleep_until(640)
            found = await asked(world, 300)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.MISSED,
            f"etl, due 2026-03-28 12:05:00 UTC, was missed: no node was there from 12:00:30 to 12:10:00, and {then}.",
        )
        assert found.advice == "to run it again: itinerary replay etl:1774699500"

    played(story)


@pytest.mark.spec("U4", "missed: no node from when to when")
def test_one_that_was_claimed_before_everybody_was_gone_is_missed_as_well() -> None:
    async def story(world: World) -> None:
        overrides = read_overrides({"recovery": "mark_as_missed"}, OverrideLevel.JOB)
        await world.register("etl", world.task(), overrides=overrides)
        async with world.dying(world.node("a")):
            await world.sleep_until(55)
        await world.sleep_until(600)
        async with world.running(world.node("b")):
            await world.sleep_until(640)
            found = await asked(world, 60)
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.MISSED,
            "etl, due 2026-03-28 12:01:00 UTC, was missed: no node was heard of from 12:00:55 to 12:10:00, and its"
            " recovery is mark_as_missed.",
        )

    played(story)


@pytest.mark.spec("U4", "compressed into another")
def test_one_run_answers_for_many() -> None:
    async def story(world: World) -> None:
        await world.register(
            "etl", world.task(), overrides=read_overrides({"recovery": "compressed"}, OverrideLevel.JOB)
        )
        async with world.running(world.node("a")):
            await world.sleep_until(30)
        await world.sleep_until(610)
        async with world.running(world.node("b")):
            await world.sleep_until(650)
            inside = await asked(world, 300)
            itself = await asked(world, 540)
        says(
            inside,
            RunResult.DID_NOT_RUN,
            Cause.COMPRESSED,
            "etl, due 2026-03-28 12:05:00 UTC, has no run of its own: no node was there from 12:00:30 to "
            "12:10:10, and the run due 12:09:00 (etl:1774699740) answers for it (recovery is compressed). That "
            "run answers for 9 instants, and ended as completed at 12:10:10.",
        )
        says(
            itself,
            RunResult.RAN_LATE,
            Cause.NO_NODE,
            "etl, due 2026-03-28 12:09:00 UTC, ran 1 min 10 s late: no node was there from 12:00:30 to "
            "12:10:10, and it was recovered by compressed. It began at 12:10:10 on node b and completed after 0"
            " ms. It answers for 9 instants, the first of them due 12:01:00.",
        )

    played(story)


@pytest.mark.spec("U4", "condition unmet")
@pytest.mark.parametrize("unmet", [Unmet.SKIP, Unmet.FAIL])
def test_what_it_requires_was_not_so(unmet: Unmet) -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), requires=(Requirement(file="/no/such/file", on_unmet=unmet),))
        async with world.running(world.node()):
            await world.sleep_until(70)
            found = await asked(world, 60)
        did = "did not run" if unmet is Unmet.SKIP else "did not run and failed"
        says(
            found,
            RunResult.DID_NOT_RUN,
            Cause.CONDITION,
            f"etl, due 2026-03-28 12:01:00 UTC, {did}: it requires file /no/such/file, which is not so.",
        )

    played(story)


@pytest.mark.spec("U4", "version not in force")
def test_a_new_version_took_it_away() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(52)
            rules = DeclarationContext(world.registry, NOTHING, {})
            view = NodeView(world.store, node)
            updates = Updates(world.store, view, "anna", rules, lambda: UpdatePolicy.IMMEDIATE)
            await updates.update("etl", DefinitionChange(schedule=every("7h"), from_version=1, reason="too much load"))
            await world.sleep_until(200)
            claimed, later = await asked(world, 60), await asked(world, 120)
        says(
            claimed,
            RunResult.DID_NOT_RUN,
            Cause.VERSION,
            "etl, due 2026-03-28 12:01:00 UTC, did not run: version 2 does not have this instant (in force "
            "since 12:00:52, by anna: too much load).",
        )
        says(
            later,
            RunResult.NOT_DUE,
            Cause.VERSION,
            "etl at 2026-03-28 12:02:00 UTC was not due: version 2 was in force then (since 12:00:52, "
            "by anna: too much load); version 1 has it (in force since 12:00:00, by test). The nearest instants"
            " are 12:00:00 and 15:00:00.",
        )

    played(story)


@pytest.mark.spec("U4", "version not in force")
def test_a_graceful_update_left_it_out() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        node = world.node()
        async with world.running(node):
            await world.sleep_until(52)
            rules = DeclarationContext(world.registry, NOTHING, {})
            updates = Updates(world.store, NodeView(world.store, node), "anna", rules, lambda: UpdatePolicy.GRACEFUL)
            await updates.update("etl", DefinitionChange(schedule=cron("2-59/10 * * * *"), reason="too much load"))
            await world.sleep_until(200)
            found = await asked(world, 120)
        says(
            found,
            RunResult.NOT_DUE,
            Cause.VERSION,
            "etl at 2026-03-28 12:02:00 UTC was not due: version 2 took over gracefully, and its instants begin at "
            "12:12:00. The last run of the version before it was less than half an interval earlier. The nearest "
            "instants are 12:01:00 and 12:12:00.",
        )

    played(story)


@pytest.mark.spec("U4", "quarantined")
def test_nobody_can_say_what_it_expects() -> None:
    async def story(world: World) -> None:
        await world.enter("etl", '{"schedule": {"cron": "61 * * * *"}}')
        async with world.running(world.node()):
            await world.sleep_until(70)
            found = await asked(world, 60)
            to_come = await asked(world, 3_600)
            newest = await asked(world, None)
        says(
            found,
            RunResult.UNKNOWN,
            Cause.QUARANTINED,
            "etl at 2026-03-28 12:01:00 UTC was not decided: the job was quarantined, from 12:00:00 to "
            "12:01:03, since nobody can say what it expected: cron '61 * * * *': minute 61 is out of range "
            "0-59.",
        )
        says(
            to_come,
            RunResult.UNKNOWN,
            Cause.QUARANTINED,
            "etl at 2026-03-28 13:00:00 UTC cannot be explained: the job is quarantined, since nobody can say "
            "what it expects: version 1: cron '61 * * * *': minute 61 is out of range 0-59.",
        )
        says(
            newest,
            RunResult.UNKNOWN,
            Cause.QUARANTINED,
            "etl at 2026-03-28 12:00:00 UTC was not decided: the job was quarantined, from 12:00:00 to "
            "12:01:03, since nobody can say what it expected: cron '61 * * * *': minute 61 is out of range "
            "0-59.",
        )

    played(story)


@pytest.mark.spec("U4", "quarantined")
def test_no_node_has_its_code() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node(knows=lambda _: False)):
            await world.sleep_until(100)
            found = await asked(world, 60)
        says(
            found,
            RunResult.WAITS,
            Cause.NO_CODE,
            "etl, due 2026-03-28 12:01:00 UTC, has been waiting for 40 s: no node that is there has the code of"
            " its job (node a lacks it).",
        )
        assert found.advice == "start a node with the code of this job, or remove the job"

    played(story)
