"""Jobs that their source no longer declares are kept, stopped or removed when the source is started again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from itinerary import Itinerary, every
from itinerary.core.timeline.history import JobStopped
from itinerary.jobs.registration import register
from itinerary.jobs.undeclared import JobSource, UndeclaredJobs, logical_path, source_of
from itinerary.model.policies import Undeclared
from itinerary.model.queries import EntriesQuery
from itinerary.operations.job_changes import StatusChanges
from itinerary.operations.job_updates import is_removed
from itinerary.read.timeline_view import StoreView
from itinerary.stores.store import EngineStore
from tests.unit.jobs.test_registration import LOG, Clock, app_with, memory

FILE = "/srv/jobs.toml"


class House:
    """A store, and the files that are started on it."""

    def __init__(self, store: EngineStore) -> None:
        self.store = store

    async def up(
        self, *names: str, source: str = FILE, undeclared: Undeclared | None = Undeclared.STOP, every_: str = "1h"
    ) -> UndeclaredJobs | None:
        app = app_with(*((name, every(every_)) for name in names))
        return await register(self.store, app.declared, by="anna", log=LOG, home=JobSource(source, undeclared))

    async def stopped(self) -> dict[str, str | None]:
        """The reason of each job that is stopped."""
        view = await StoreView.of(self.store)
        found = {row.name: view.timeline.in_force(row.number, view.now()) for row in view.timeline.jobs.values()}
        standings = {name: segment.status for name, segment in found.items() if segment is not None}
        return {name: one.reason for name, one in standings.items() if isinstance(one, JobStopped)}

    async def removed(self) -> list[str]:
        view = await StoreView.of(self.store)
        return [row.name for row in view.timeline.jobs.values() if is_removed(view.timeline, row)]

    async def source(self, name: str) -> str | None:
        view = await StoreView.of(self.store)
        return source_of(view.timeline.entries(view.job(name).number))

    async def versions(self) -> list[tuple[str, int]]:
        view = await StoreView.of(self.store)
        return sorted((row.name, row.version) for row in view.timeline.jobs.values())


def played(scenario: Callable[[House], Awaitable[None]]) -> None:
    async def play() -> None:
        async with memory(Clock()) as store:
            await scenario(House(store))

    asyncio.run(play())


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_job_that_its_file_no_longer_declares_is_stopped_with_the_reason() -> None:
    async def scenario(house: House) -> None:
        assert await house.up("etl", "ghost") == UndeclaredJobs(FILE, Undeclared.STOP, ())
        assert await house.up("etl") == UndeclaredJobs(FILE, Undeclared.STOP, ("ghost",))
        assert await house.stopped() == {"ghost": f"no longer declared in {FILE}"}
        entries = await house.store.read(EntriesQuery(0))
        assert await house.up("etl") == UndeclaredJobs(FILE, Undeclared.STOP, ())
        assert await house.store.read(EntriesQuery(0)) == entries

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_renamed_job_runs_under_its_new_name_only() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl")
        await house.up("extract")
        assert list(await house.stopped()) == ["etl"]

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
@pytest.mark.parametrize("interval", ["1h", "2h"], ids=["unchanged", "changed"])
def test_a_job_that_is_declared_again_starts_again(interval: str) -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        await house.up("etl")
        await house.up("etl", "ghost", every_=interval)
        assert await house.stopped() == {}

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_job_that_a_person_stopped_stays_stopped_when_it_is_declared() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        await StatusChanges(house.store, await StoreView.of(house.store), "ben").stop("ghost", "too loud")
        await house.up("etl")
        await house.up("etl", "ghost")
        assert await house.stopped() == {"ghost": "too loud"}

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_undeclared_jobs_are_removed_or_kept_if_that_is_chosen() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        assert await house.up("etl", undeclared=Undeclared.KEEP) == UndeclaredJobs(FILE, Undeclared.KEEP, ("ghost",))
        assert await house.stopped() == {}
        assert await house.up("etl", undeclared=Undeclared.REMOVE) == UndeclaredJobs(
            FILE, Undeclared.REMOVE, ("ghost",)
        )
        assert await house.removed() == ["ghost"]
        await house.up("etl", "ghost")
        assert await house.removed() == []
        assert await house.versions() == [("etl", 1), ("ghost", 2)]

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_jobs_of_another_file_and_of_a_program_that_says_nothing_are_left_alone() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        await house.up("other", source="/srv/other.toml")
        assert await house.up("other", source="/srv/none.py", undeclared=None) is None
        assert await house.stopped() == {}
        assert await house.source("other") == "/srv/other.toml"

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_file_that_was_moved_takes_its_jobs_along_without_a_new_version() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        await house.up("etl", "ghost", source="/opt/jobs.toml")
        assert await house.source("ghost") == "/opt/jobs.toml"
        assert await house.versions() == [("etl", 1), ("ghost", 1)]
        await house.up("etl")
        assert await house.stopped() == {}, "the old file has no say any more"
        await house.up("etl", source="/opt/jobs.toml")
        assert list(await house.stopped()) == ["ghost"]

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_a_change_by_hand_keeps_the_source_of_the_job() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        await register(house.store, app_with(("ghost", every("3h"))).declared, by="ben", log=LOG)
        assert await house.source("ghost") == FILE

    played(scenario)


@pytest.mark.spec("D10", "undeclared jobs")
def test_nodes_that_start_together_stop_a_job_once() -> None:
    async def scenario(house: House) -> None:
        await house.up("etl", "ghost")
        before = len(await house.store.read(EntriesQuery(0)))
        await asyncio.gather(*(house.up("etl") for _ in range(5)))
        assert len(await house.store.read(EntriesQuery(0))) == before + 1

    played(scenario)


def test_the_source_of_an_app_is_the_file_that_makes_it_or_its_job_file(tmp_path: Path) -> None:
    assert Itinerary(store="memory:").source == __file__
    file = tmp_path / "jobs.toml"
    file.write_text('[jobs.a]\nschedule = "@daily"\ntasks = [{ name = "t", shell = ["true"] }]\n', "utf-8")
    assert Itinerary(store="memory:", job_file=file).source == str(file)


def test_a_release_that_is_reached_by_a_link_keeps_the_name_of_the_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release-1").mkdir()
    link = tmp_path / "current"
    link.symlink_to("release-1")
    assert logical_path(link / "jobs.toml") == str(link / "jobs.toml")
    monkeypatch.chdir(link)
    monkeypatch.setenv("PWD", os.fspath(link))
    assert logical_path("jobs.toml") == str(link / "jobs.toml")
    monkeypatch.setenv("PWD", "/")
    assert logical_path("jobs.toml") == str(tmp_path.resolve() / "release-1" / "jobs.toml")
