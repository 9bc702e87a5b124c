"""`explain` of instants that nothing is on record of: undecided, forgotten, never due, not on the clock (U4)."""

from __future__ import annotations

import pytest

from itinerary.errors import NodeError, WindowError
from itinerary.explain import Cause, RunResult, explain
from itinerary.model.retention import PruneCursor, Retention
from itinerary.operations.run_requests import RunRequests
from itinerary.read.run_lookup import RunLookup
from itinerary.read.timeline_view import NodeView
from itinerary.schedules import Calendar, cron, every, excluding
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import Moment
from tests.unit.explain.asking import asked, says
from tests.unit.runtime.world import World, played

# -- nothing is on record ----------------------------------------------------------------------------------------------


@pytest.mark.spec("U4", "no node")
def test_nobody_has_come_yet() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        never = await asked(world, 0)
        async with world.running(world.node()):
            await world.sleep_until(30)
        await world.sleep_until(600)
        found = await asked(world, 300)
        says(
            never,
            RunResult.WAITS,
            Cause.NO_NODE,
            "etl, due 2026-03-28 12:00:00 UTC, has been due for 0 ms and is not decided yet: no node is known to "
            "have ever been there.",
        )
        says(
            found,
            RunResult.WAITS,
            Cause.NO_NODE,
            "etl, due 2026-03-28 12:05:00 UTC, has been due for 5 min and is not decided yet: no node has been "
            "there since 12:00:30.",
        )

    played(story)


@pytest.mark.spec("U4", "history pruned")
def test_its_history_is_no_longer_kept() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task())
        async with world.running(world.node()):
            await world.sleep_until(400)
        await world.sleep_until(4_000)
        cursor: PruneCursor | None = PruneCursor()
        rules = Retention(keep_for=600 * SECOND, keep_failed_for=600 * SECOND, margin=0)
        while cursor is not None:
            cursor = (await world.store.prune(rules, cursor)).next
        found = await asked(world, 60)
        says(
            found,
            RunResult.UNKNOWN,
            Cause.PRUNED,
            "etl, due 2026-03-28 12:01:00 UTC, is no longer on record: the history of the job begins at 12:06:00.",
        )

    played(story)


@pytest.mark.spec("U4", "not due at all")
def test_it_was_not_due_at_all() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("30m"))
        async with world.running(world.node()):
            await world.sleep_until(2_000)
            past = await asked(world, 900)
            near = await asked(world, 1_740)
            to_come = await asked(world, 4_500)
            with pytest.raises(WindowError, match="outside of the supported years 1900 to 2199"):
                await asked(world, 180 * 365 * 86_400)
        says(
            past,
            RunResult.NOT_DUE,
            Cause.SCHEDULE,
            'etl at 2026-03-28 12:15:00 UTC was not due: its schedule is "Every 30m". The nearest instants '
            "are 12:00:00 and 12:30:00.",
        )
        says(
            near,
            RunResult.RAN,
            Cause.ON_TIME,
            "Nothing is due at 12:29:00; the nearest instant is 12:30:00. etl, due 2026-03-28 12:30:00 UTC, ran"
            " on time. It began at once on node a and completed after 0 ms.",
        )
        says(
            to_come,
            RunResult.NOT_DUE,
            Cause.SCHEDULE,
            'etl at 2026-03-28 13:15:00 UTC is not due: its schedule is "Every 30m". The nearest instants are'
            " 13:00:00 and 13:30:00.",
        )
        assert [fact.what for fact in past.facts][:2] == ["completed (etl:1774699200)", "completed (etl:1774701000)"]

    played(story)


@pytest.mark.spec("U4", "not due at all")
def test_it_lies_outside_of_its_schedules_range() -> None:
    async def story(world: World) -> None:
        schedule = every("1m", start="2026-03-28T12:02:00Z", end="2026-03-28T12:03:00Z")
        await world.register("etl", world.task(), schedule=schedule)
        async with world.running(world.node()):
            await world.sleep_until(300)
            before = await asked(world, 60)
            after = await asked(world, 240)
            newest = await asked(world, None)
        says(
            before,
            RunResult.NOT_DUE,
            Cause.RANGE,
            "etl at 2026-03-28 12:01:00 UTC was not due: its schedule begins at 2026-03-28T12:02:00Z. The first"
            " instant after that is 12:02:00.",
        )
        says(
            after,
            RunResult.NOT_DUE,
            Cause.RANGE,
            "etl at 2026-03-28 12:04:00 UTC was not due: its schedule ended at 2026-03-28T12:03:00Z. The last "
            "instant before that is 12:03:00.",
        )
        says(
            newest,
            RunResult.RAN,
            Cause.ON_TIME,
            "etl, due 2026-03-28 12:03:00 UTC, ran on time. It began at once on node a and completed after 0 "
            "ms. It has no instant left.",
        )

    played(story)


@pytest.mark.spec("U4", "excluded by a calendar")
def test_a_calendar_is_closed_then() -> None:
    async def story(world: World) -> None:
        freeze = Calendar("freeze", blackouts=[("2026-03-28T12:01:00Z", "2026-03-28T13:00:00Z")])
        await world.register("etl", world.task(), schedule=excluding(every("1m"), freeze))
        holidays = Calendar("holidays", dates=["2026-03-30"])
        await world.register("day", world.task(), schedule=excluding(cron("0 9 * * *"), holidays, "next"))
        weekends = Calendar("weekends", closed_on_weekends=True)
        await world.register("week", world.task(), schedule=excluding(cron("0 9 * * *"), weekends))
        async with world.running(world.node()):
            await world.sleep_until(150)
        says(
            await asked(world, 120),
            RunResult.DID_NOT_RUN,
            Cause.CALENDAR,
            "etl at 2026-03-28 12:02:00 UTC did not run: calendar freeze is closed then (a blackout from "
            "2026-03-28 12:01:00 to 2026-03-28 13:00:00 UTC). The nearest instants are 12:00:00 and 13:00:00.",
        )
        says(
            await asked(world, 2 * 86_400 - 3 * 3_600, "day"),
            RunResult.NOT_DUE,
            Cause.CALENDAR,
            "day at 2026-03-30 09:00:00 UTC will not run: calendar holidays is closed then (2026-03-30 is one "
            "of its dates). It is moved to 2026-03-31 09:00:00. The nearest instants are 2026-03-29 09:00:00 "
            "and 2026-03-31 09:00:00.",
        )
        says(
            await asked(world, 86_400 - 3 * 3_600, "week"),
            RunResult.NOT_DUE,
            Cause.CALENDAR,
            "week at 2026-03-29 09:00:00 UTC will not run: calendar weekends is closed then (2026-03-29 is a "
            "Sunday, and it is closed on weekends). The first instant after that is 2026-03-30 09:00:00.",
        )

    played(story)


# -- the clock of its zone ---------------------------------------------------------------------------------------------


async def in_berlin(world: World, **choice: str) -> None:
    """A job at half past two in the night, in Berlin, on a store that knows that zone."""
    await world.register("etl", world.task(), schedule=cron("30 2 * * *", tz="Europe/Berlin", **choice))


def reading(text: str) -> Moment:
    return Moment.of(text, "TIME")


@pytest.mark.spec("U4", "not due at all: daylight saving")
def test_the_clock_does_not_show_that_time_that_night() -> None:
    """On 2026-03-29 it goes from 02:00 to 03:00 in Berlin; noon of the day before is when the world begins."""

    async def story(world: World) -> None:
        await in_berlin(world)
        await world.register("skip", world.task(), schedule=cron("30 2 * * *", tz="Europe/Berlin", gap="skip"))
        await world.sleep_until(13 * 3_600 - 60)  # a minute before the shift
        async with world.running(world.node()):
            await world.sleep_until(13 * 3_600 + 60)
        ran = await explain(world.store, "etl", reading("2026-03-29T02:30"))
        skipped = await explain(world.store, "skip", reading("2026-03-29T02:30"))
        says(
            ran,
            RunResult.RAN,
            Cause.ON_TIME,
            "The clock of Europe/Berlin never showed 2026-03-29 02:30:00: it goes on at 03:00:00. etl, due "
            "2026-03-29 03:00:00 Europe/Berlin, ran on time. It began at once on node a and completed after 0 "
            "ms.",
        )
        says(
            skipped,
            RunResult.NOT_DUE,
            Cause.DST_GAP,
            "skip at 2026-03-29 03:00:00 Europe/Berlin was not due: the clock of Europe/Berlin does not show "
            "2026-03-29 02:30:00: it goes on at 03:00:00, and nothing is due then. The first instant after that"
            " is 2026-03-30 02:30:00.",
        )

    played(story)


@pytest.mark.spec("U4", "not due at all: daylight saving")
def test_the_clock_shows_that_time_twice() -> None:
    """On 2026-10-25 it goes from 03:00 back to 02:00 in Berlin."""

    async def story(world: World) -> None:
        await in_berlin(world)
        async with world.running(world.node()):
            await world.sleep_until(60)
        first = await explain(world.store, "etl", reading("2026-10-25T02:30"))
        second = await explain(world.store, "etl", reading("2026-10-25T01:30:00Z"))
        says(
            first,
            RunResult.TO_COME,
            Cause.FUTURE,
            "etl, due 2026-10-25 02:30:00 (+02:00) Europe/Berlin, is to come in 210 d 12 h, by version 1.",
        )
        says(
            second,
            RunResult.NOT_DUE,
            Cause.DST_REPEAT,
            "etl at 2026-10-25 02:30:00 (+01:00) Europe/Berlin is not due: the clock of Europe/Berlin shows "
            "this time twice that day, and the schedule means the other one, 02:30:00 (+02:00). The nearest "
            "instants are 02:30:00 (+02:00) and 2026-10-26 02:30:00.",
        )

    played(story)


# -- who asks ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("U4", "requests")
def test_a_run_that_somebody_asked_for_is_explained_as_well() -> None:
    async def story(world: World) -> None:
        await world.register("etl", world.task(), schedule=every("1h"))
        node = world.node()
        async with world.running(node):
            await world.sleep_until(100)
            requests = RunRequests(world.store, NodeView(world.store, node), "anna", RunLookup())
            await requests.trigger("etl", "request-7", {}, "by hand")
            await world.sleep_until(110)
            newest, near = await asked(world, None), await asked(world, 90)
            await requests.replay("etl:1774699200", "again", None, "original", None)
            await world.sleep_until(120)
            again = await asked(world, 0)
        says(
            newest,
            RunResult.RAN,
            Cause.ON_TIME,
            "etl, triggered by anna at 2026-03-28 12:01:40 UTC, ran on time. It began at once on node a and "
            "completed after 0 ms.",
        )
        says(
            near,
            RunResult.RAN,
            Cause.ON_TIME,
            "Nothing is due at 12:01:30; the nearest instant is 12:01:40. etl, triggered by anna at 2026-03-28 "
            "12:01:40 UTC, ran on time. It began at once on node a and completed after 0 ms.",
        )
        assert again.facts[-1].what.startswith("run again: the run replayed for 12:00:00")

    played(story)


@pytest.mark.spec("U4", "an unknown job")
def test_a_job_that_is_not_there_is_an_error_with_the_nearest_name() -> None:
    async def story(world: World) -> None:
        await world.register("nightly", world.task())
        with pytest.raises(NodeError, match="there is no job 'nightl' in the store; did you mean 'nightly'"):
            await asked(world, 0, "nightl")

    played(story)
