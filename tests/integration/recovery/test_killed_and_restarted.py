"""A node that is killed with -9 and started again at once loses nothing but what `on_orphan` gives up (R9, X6)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import itinerary
from itinerary.model.queries import Detail, DetailsQuery, NodesQuery, Status, StoreStatusQuery
from itinerary.model.rows import NodeRow, OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant
from itinerary.stores import open_store
from itinerary.stores.tables import OCCURRENCES
from tests.integration.recovery.killed_node import JOB
from tests.integration.stores.conftest import Places, places, postgres_server

__all__ = ["places", "postgres_server"]

S = OccurrenceState
ROOT = Path(itinerary.__file__).parent.parent.parent
PATIENCE = 120.0
"""How long something that must happen may take, before a test says that it did not."""
MORE = 3
"""So many runs after the restart are enough to see that the job goes on."""


class Story:
    """What a test does: it starts programs, kills them, and reads the store."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url, self.directory = url, directory

    @contextmanager
    def node(self, on_orphan: str, host: str) -> Iterator[subprocess.Popen[bytes]]:
        """A node, which is killed at the end, if it has not ended by then."""
        flag = self.directory / "began"
        command = ["-m", "tests.integration.recovery.killed_node", self.url, str(flag), on_orphan, host]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen([sys.executable, *command], env=environment, cwd=ROOT, stdout=log, stderr=log)  # noqa: S603
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What the command line says."""
        whole = [sys.executable, "-m", "itinerary", *arguments, "--store", self.url]
        return subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE, cwd=self.directory, check=False)  # noqa: S603

    def rows(self) -> list[OccurrenceRow]:
        async def read() -> list[OccurrenceRow]:
            async with open_store(self.url) as store:
                return await store._engine.read(lambda tx: list(tx.scan(OCCURRENCES, limit=10_000)))

        return sorted(asyncio.run(read()), key=lambda row: row.instant)

    def detail(self, row: OccurrenceRow) -> Detail:
        async def read() -> Detail:
            async with open_store(self.url) as store:
                return (await store.read(DetailsQuery((row.ref,))))[0]

        return asyncio.run(read())

    def nodes(self) -> list[NodeRow]:
        async def read() -> list[NodeRow]:
            async with open_store(self.url) as store:
                return sorted(await store.read(NodesQuery()), key=lambda node: node.number)

        return asyncio.run(read())

    def now(self) -> int:
        return self.status().now

    def status(self) -> Status:
        async def read() -> Status:
            async with open_store(self.url) as store:
                return await store.read(StoreStatusQuery())

        return asyncio.run(read())

    def until(self, holds: Callable[[], bool], what: str, node: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            log = (self.directory / "log").read_text()
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} s\n{log}"
            assert node.poll() is None, f"{what}: the node has ended\n{log}"
            time.sleep(0.1)

    def killed_and_restarted(self, on_orphan: str, host: str = "-") -> int:
        """Kill the node in the middle of its first run, start it again at once, and let it run. Returns when it was
        killed, by the store's clock."""
        with self.node(on_orphan, "-") as first:
            self.until((self.directory / "began").exists, "the first run begins", first)
            first.kill()
            first.wait()
        killed_at = self.now()
        with self.node(on_orphan, host) as second:
            self.until(
                lambda: sum(_began_after(row, killed_at) for row in self.rows()) >= MORE, "the job runs again", second
            )
            self.until(lambda: self.status().watermark > killed_at, "what was due before the kill is decided", second)
        return killed_at


def _began_after(row: OccurrenceRow, at: int) -> bool:
    return row.started_at is not None and row.started_at > at and row.instant > at and row.status is S.COMPLETED


def first_of(rows: list[OccurrenceRow]) -> OccurrenceRow:
    return min((row for row in rows if row.started_at is not None), key=lambda row: row.started_at or 0)


@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
@pytest.mark.spec("R9", "killed and started again")
def test_a_node_that_is_started_again_settles_the_work_of_its_killed_predecessor_first(
    places: Places, tmp_path: Path
) -> None:
    story = Story(places(), tmp_path)
    killed_at = story.killed_and_restarted("leave")
    rows = story.rows()
    orphan = first_of(rows)
    assert orphan.status is S.ORPHANED
    after = [row for row in rows if row.due_at > killed_at]
    assert [row for row in after if row.status is S.SKIPPED] == []
    waited = [
        line.why for row in after for line in story.detail(row).transitions if "waits to learn" in (line.why or "")
    ]
    assert waited == [], "the dead run was settled before the node was ready, so nothing had to wait"
    predecessor, _ = story.nodes()
    assert predecessor.left_at is not None

    said = " ".join(story.command("explain", JOB, shown_instant(orphan.instant)).stdout.split())
    assert "was given up as orphaned: node laptop is gone, and nobody knows how far it came" in said
    assert "node laptop left" not in said, "a killed node does not say that it leaves"
    audited = story.command("audit")
    assert audited.returncode == 0, audited.stdout
    assert "1 orphaned (begun, and lost with the node)" in audited.stdout
    assert f"not run: {sum(row.status is S.SKIPPED for row in rows)}" in audited.stdout
    now = story.command("audit", "--until", shown_instant(story.now() + 3_600 * SECOND))
    assert now.returncode == 4, now.stdout
    assert "not looked at: " in now.stdout


@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
@pytest.mark.spec("R9", "killed and started again")
def test_a_run_of_a_killed_predecessor_is_run_again_at_once_where_its_job_wants_that(
    places: Places, tmp_path: Path
) -> None:
    story = Story(places(), tmp_path)
    story.killed_and_restarted("rerun")
    detail = story.detail(first_of(story.rows()))
    assert detail.row.status is S.COMPLETED
    assert [attempt.number for attempt in detail.attempts] == [1, 2]


@pytest.mark.parametrize("places", ["sqlite", "postgres"], indirect=True)
@pytest.mark.spec("X6", "no skip because of a dead run")
def test_without_a_proof_the_next_instants_wait_for_the_silence_of_the_dead_node_and_run(
    places: Places, tmp_path: Path
) -> None:
    story = Story(places(), tmp_path)
    killed_at = story.killed_and_restarted("leave", "another-machine")
    rows = story.rows()
    assert first_of(rows).status is S.ORPHANED
    after = [row for row in rows if row.due_at > killed_at]
    assert [row for row in after if row.status is S.SKIPPED] == []
