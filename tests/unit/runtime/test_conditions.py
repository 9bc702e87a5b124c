"""Requirements of a job, on a node: it waits, gives back its slot, runs, skips or fails, and both phases show (O3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from itinerary.model.definition import Requirement, Unmet
from itinerary.model.states import OccurrenceState
from itinerary.schedules import every
from tests.unit.runtime.world import World, played

ONCE_AT_TEN = every("24h", start="2026-03-28T12:00:10Z")


async def register(world: World, *requirements: Requirement) -> None:
    await world.register("job", world.task(1.0), schedule=ONCE_AT_TEN, requires=requirements)


async def status(world: World) -> tuple[str, str | None]:
    (row,) = await world.rows("job")
    return row.status.value, row.reason


@pytest.mark.spec("O3", "wait")
def test_it_waits_until_the_file_is_there_and_both_phases_are_on_record(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wanted = tmp_path / "ready"
        await register(world, Requirement(file=str(wanted), every="5s", deadline="1m"))
        async with world.running(world.node()):
            await world.sleep_until(12.0)
            assert (await status(world))[0] in ("condition_pending", "condition_running", "action_running")
            await world.sleep_until(23.0)
            assert world.began == []
            wanted.touch()
            await world.sleep_until(28.0)
            assert (await status(world))[0] == "completed"
        (row,) = await world.rows("job")
        seen = {line.after.value for line in (await world.detail(row)).transitions}
        assert {"condition_pending", "condition_running", "running", "completed"} <= seen
        assert world.began == ["job 1"]

    played(story)


@pytest.mark.spec("O3", "its slot")
def test_while_it_waits_others_use_its_slot(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wanted = tmp_path / "ready"
        await register(world, Requirement(file=str(wanted), every="5s", deadline="1m"))
        await world.register("other", world.task(1.0), schedule=every("24h", start="2026-03-28T12:00:12Z"))
        async with world.running(world.node(max_concurrent_jobs=1)):
            await world.sleep_until(14.0)
            assert world.began == ["other 1"]
            wanted.touch()
            await world.sleep_until(20.0)
            assert world.began == ["other 1", "job 1"]

    played(story)


@pytest.mark.spec("O3", "deadline")
def test_after_its_deadline_it_fails_with_the_reason(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wanted = tmp_path / "ready"
        await register(world, Requirement(file=str(wanted), every="5s", deadline="20s"))
        async with world.running(world.node()):
            await world.sleep_until(28.0)
            assert (await status(world))[0] != "failed"
            await world.sleep_until(40.0)
            state, reason = await status(world)
            assert state == "failed"
            assert reason is not None
            assert str(wanted) in reason
        assert world.began == []

    played(story)


@pytest.mark.spec("O3", "skip and fail")
@pytest.mark.parametrize(("unmet", "state"), [(Unmet.SKIP, "skipped"), (Unmet.FAIL, "failed")])
def test_unmet_it_is_skipped_or_fails_if_it_says_so_and_the_reason_is_kept(
    unmet: Unmet, state: str, tmp_path: Path
) -> None:
    async def story(world: World) -> None:
        await register(world, Requirement(file=str(tmp_path / "ready"), on_unmet=unmet))
        async with world.running(world.node()):
            await world.sleep_until(15.0)
            found, reason = await status(world)
            assert found == state
            assert reason is not None
            assert "ready" in reason
        assert world.began == []

    played(story)


@pytest.mark.spec("O3", "a callable")
@pytest.mark.parametrize(("says", "state"), [("run", "completed"), ("skip", "skipped"), ("fail", "failed")])
def test_a_callable_answers_what_is_to_be_done(says: str, state: str) -> None:
    async def story(world: World) -> None:
        async def check(ctx: Any) -> str:
            return says

        name = world.registry.register(check, "world:check")
        await register(world, Requirement(python=name))
        async with world.running(world.node()):
            await world.sleep_until(15.0)
            assert (await status(world))[0] == state

    played(story)


@pytest.mark.spec("O3", "act")
def test_what_is_done_about_it_is_done_and_then_it_is_looked_at_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        wanted, acted = tmp_path / "ready", []

        async def act(ctx: Any) -> None:
            acted.append(world.loop.time())
            await asyncio.sleep(1.0)
            wanted.touch()

        name = world.registry.register(act, "world:act")
        await register(world, Requirement(file=str(wanted), on_unmet=Unmet.ACT, action=name, every="5s"))
        async with world.running(world.node()):
            await world.sleep_until(20.0)
            assert (await status(world))[0] == "completed"
        assert len(acted) == 1
        (row,) = await world.rows("job")
        seen = {line.after.value for line in (await world.detail(row)).transitions}
        assert {"action_pending", "action_running"} <= seen

    played(story)


@pytest.mark.spec("O3", "another job")
def test_it_waits_for_another_jobs_success(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.register("import", world.task(7.0), schedule=ONCE_AT_TEN)
        await register(world, Requirement(job="import", every="1s", deadline="1m"))
        async with world.running(world.node()):
            await world.sleep_until(16.0)
            assert world.began == ["import 1"]
            await world.sleep_until(22.0)
            assert world.began == ["import 1", "job 1"]
            assert (await status(world))[0] == "completed"

    played(story)


@pytest.mark.spec("O3", "what cannot be found out")
def test_what_can_never_be_found_out_fails_at_once_and_says_so() -> None:
    async def story(world: World) -> None:
        await register(world, Requirement(job="no such job", every="1s", deadline="1m"))
        async with world.running(world.node()):
            await world.sleep_until(12.0)
            assert (await status(world))[0] == OccurrenceState.FAILED.value
        assert "no such job" in world.log.said("errand.failed")[0]["error"]

    played(story)
