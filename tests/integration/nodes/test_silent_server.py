"""A node whose database stops answering: it says so, loses no result, and ends when it is told to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

import itinerary
from itinerary.model.queries import JobsQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.states import OccurrenceState
from itinerary.stores import open_store
from tests.contracts.stores.dump import dump
from tests.integration.nodes.evidence import Begun, clock, read
from tests.proxy import Proxy
from tests.servers import PostgresServer

_HANG: Final = 90.0
"""Seconds after which a test takes something for one that never comes."""
_JOBS: Final = 20
_SLOW: Final = 10
"""One job in so many of `app` takes its time."""
_ENOUGH: Final = 15
_SETTLED: Final = 5.0
"""Seconds after which a run of `app` has ended, on a busy machine too."""
_SETTINGS: Final = {
    "node_heartbeat_interval": "1s",
    "shutdown_grace_period": "5s",
    "kill_grace": "1s",
    "pre_schedule_interval": "3s",
}
_OPTIONS: Final = "answer_timeout=2&connect_timeout=2"


class _Node:
    """A node in a process of its own, and what it says and does."""

    def __init__(self, directory: Path, url: str) -> None:
        self._log, self.evidence = directory / "node.log", directory / "evidence"
        self.evidence.mkdir()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ITINERARY_")} | {
            "PYTHONPATH": os.pathsep.join([str(Path(itinerary.__file__).parents[1]), str(Path(__file__).parents[3])]),
            "JOBS": str(_JOBS),
            "EVIDENCE": str(self.evidence),
            "SETTINGS": json.dumps(_SETTINGS),
        }
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(sys.executable, "-m", "itinerary", "up", "tests.integration.nodes.app:app", "--quiet"),
                    *("--log", "json", "--name", "node", "--store", f"{url}&{_OPTIONS}", "--no-web"),
                    *("--health", "127.0.0.1:0"),
                ],
                cwd=directory,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def begun(self) -> list[Begun]:
        return list(read(self.evidence))

    def said(self, event: str) -> list[dict[str, Any]]:
        lines = self._log.read_text("utf-8", "replace").splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [one for one in events if one["event"] == event]

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for something that this process does."""
        until = time.monotonic() + _HANG
        while not is_so():
            assert self.process.poll() is None, self._log.read_text("utf-8", "replace")
            assert time.monotonic() < until, f"it never came: {self._log.read_text('utf-8', 'replace')[-3000:]}"
            time.sleep(0.1)  # another process: there is nothing to wait on

    def until_begun(self, count: int) -> None:
        """Wait until so many more runs have begun."""
        before = len(self.begun())
        self.until(lambda: len(self.begun()) >= before + count)

    def ready(self) -> tuple[int, str]:
        """What the probe says."""
        (listening,) = self.said("health.listening")
        host, _, port = listening["at"].rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=_HANG)
        try:
            connection.request("GET", "/health/ready")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def end(self) -> int:
        """SIGTERM: its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_HANG)


@contextmanager
def _node(directory: Path, url: str) -> Iterator[_Node]:
    node = _Node(directory, url)
    try:
        yield node
    finally:
        if node.process.poll() is None:
            node.process.kill()
        node.process.wait(_HANG)


def _rows(url: str) -> dict[tuple[str, int], OccurrenceRow]:
    async def look() -> dict[tuple[str, int], OccurrenceRow]:
        async with open_store(url) as store:
            names = {job.number: job.name for job in await store.read(JobsQuery(limit=1_000))}
            found = await dump(store._engine)
            return {(names[row.job], row.due_at): row for row in found.occurrences.values()}

    return asyncio.run(look())


def _check_ends(url: str, begun: list[Begun], ended_at: float) -> None:
    """Every run that had the time to end has ended as it did, and none has begun twice."""
    rows = _rows(url)
    settled = [one for one in begun if int(one.job.removeprefix("job")) % _SLOW or one.at < ended_at - _SETTLED]
    assert settled
    seen = Counter(str(rows[one.job, one.instant].status) for one in settled)
    assert seen == {str(OccurrenceState.COMPLETED): len(settled)}, seen
    assert max(Counter((one.job, one.instant) for one in begun).values()) == 1


@pytest.mark.spec("N5", "silent")
def test_every_result_is_written_when_a_proxy_has_lost_bytes_and_healed(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres_server.database() as url, Proxy(url) as proxy, _node(tmp_path, proxy.url) as node:
        node.until_begun(_ENOUGH)
        proxy.drop()
        node.until(lambda: bool(node.said("store.slow")))
        proxy.heal()
        node.until_begun(_ENOUGH)
        ended_at = clock()
        assert node.end() == 0
        assert node.said("store.unanswered")
        _check_ends(url, node.begun(), ended_at)


@pytest.mark.spec("N5", "silent")
def test_a_node_goes_on_when_only_its_backends_are_frozen(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with postgres_server.database() as url, _node(tmp_path, url) as node:
        node.until_begun(_ENOUGH)
        with postgres_server.frozen_between_transactions():
            node.until(lambda: bool(node.said("store.unanswered")))
            node.until_begun(_ENOUGH)
            ended_at = clock()
            assert node.end() == 0
        _check_ends(url, node.begun(), ended_at)


@pytest.mark.spec("R9")
def test_a_node_ends_when_it_is_told_to_while_its_server_is_frozen(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with postgres_server.database() as url, _node(tmp_path, url) as node:
        node.until_begun(_ENOUGH)
        with postgres_server.frozen():
            node.until(lambda: bool(node.said("store.slow")))
            status, text = node.ready()
            assert status == 503
            assert "the store does not answer" in text
            assert node.end() in (0, 3)  # 3: what ran could not be written, and the reaper has it
