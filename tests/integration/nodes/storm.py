"""A storm: several nodes as real processes on a real PostgreSQL, and one trouble after the other.

    every now and then one node is    killed with -9, and started again
                                      frozen for longer than every timeout, and thawed
                                      cut off from the database, and connected again
    and twice                         the database itself is restarted

In the end everything is left in peace for a while, the nodes are asked to end, and it is looked at what happened: by
`itinerary audit`, and by what the tasks themselves wrote down.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import itinerary
from itinerary.model.queries import Decided, Jobs
from itinerary.stores import open_store
from tests.integration.nodes.evidence import Begun, clock, read
from tests.integration.nodes.wire import Wire
from tests.servers import PostgresServer

__all__ = ["Outcome", "Plan", "raise_storm"]

_PATIENCE = 120.0
"""How long a node may take to end, or an audit to look at everything."""


class Plan(NamedTuple):
    """How hard it blows."""

    nodes: int
    jobs: int
    meets_for: float
    """Seconds in which the nodes hear of each other, before anything is looked at."""
    calm_for: float
    """Seconds at first in which all nodes are up: the load is to be shared then."""
    blows_for: float
    every: float
    """Seconds from one trouble to the next."""
    frozen_for: float
    """Longer than every timeout."""
    cut_for: float
    restarts: int
    """Of the database."""
    settles_for: float
    settings: dict[str, str]
    seed: int = 1


class Outcome(NamedTuple):
    """What came of it."""

    begun: Sequence[Begun]
    unknown: list[Begun]
    """What has begun, and has no row in the store."""
    shares: Counter[str]
    """What each node began while all were up."""
    audit: dict[str, Any]
    audit_code: int
    exits: list[int]
    troubles: list[str]
    log: str
    """The last lines of what the nodes had to say."""


class _Node:
    """A node that is started again when it was killed."""

    def __init__(self, name: str, directory: Path, url: str, plan: Plan, wire: Wire) -> None:
        self.name, self.wire = name, wire
        self._directory, self._url, self._plan = directory, url, plan
        self.process: asyncio.subprocess.Process | None = None
        self.is_in_trouble = False

    async def start(self) -> None:
        root = Path(__file__).parents[3]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ITINERARY_")} | {
            "PYTHONPATH": os.pathsep.join([str(Path(itinerary.__file__).parent.parent), str(root)]),
            "JOBS": str(self._plan.jobs),
            "EVIDENCE": str(self._directory / "evidence"),
            "SETTINGS": json.dumps(self._plan.settings),
        }
        with (self._directory / f"{self.name}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "itinerary", "up", "tests.integration.nodes.app:app", "--quiet"),
                *("--log", "json", "--name", self.name, "--store", self._url, "--no-web"),
                cwd=self._directory,
                env=environment,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None, "it was started"
        if self.process.returncode is None:
            self.process.send_signal(number)

    async def end(self) -> int:
        """Wait for its end: how it ended."""
        assert self.process is not None, "it was started"
        async with asyncio.timeout(_PATIENCE):
            return await self.process.wait()


class _Storm:
    def __init__(self, server: PostgresServer, url: str, directory: Path, plan: Plan) -> None:
        self._server, self._url, self._directory, self._plan = server, url, directory, plan
        self._dice = random.Random(plan.seed)  # noqa: S311 - no secret
        self._nodes: list[_Node] = []
        self.troubles: list[str] = []

    async def play(self) -> Outcome:
        (self._directory / "evidence").mkdir()
        plan = self._plan
        async with AsyncExitStack() as stack:
            for number in range(plan.nodes):
                wire = Wire(self._url)
                url = await wire.open()
                stack.push_async_callback(wire.close)
                node = _Node(f"node{number}", self._directory, url, plan, wire)
                stack.push_async_callback(self._bury, node)
                self._nodes.append(node)
            await asyncio.gather(*(node.start() for node in self._nodes))
            await self._until_all_work()
            calm_from = clock()
            await asyncio.sleep(plan.calm_for)
            calm_to = clock()
            await self._blow()
            await asyncio.sleep(plan.settles_for)
            for node in self._nodes:
                node.signal(signal.SIGTERM)
            exits = [await node.end() for node in self._nodes]
        code, audited = await self._audited()
        begun = list(read(self._directory / "evidence"))
        shares = Counter(one.node for one in begun if calm_from <= one.at < calm_to)
        unknown = await self._without_row(begun)
        return Outcome(begun, unknown, shares, audited, code, exits, self.troubles, self._log())

    async def _until_all_work(self) -> None:
        """Each of them has begun something, and has had the time to hear of the others since."""
        async with asyncio.timeout(_PATIENCE):
            while len({one.node for one in read(self._directory / "evidence")}) < len(self._nodes):  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.2)
        await asyncio.sleep(self._plan.meets_for)

    async def _blow(self) -> None:
        plan, kinds = self._plan, [self._kill, self._freeze, self._cut]
        count = int(plan.blows_for // plan.every)
        restarts = {round((number + 1) * count / (plan.restarts + 1)) for number in range(plan.restarts)}
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                if number in restarts:
                    self.troubles.append("the database is restarted")
                    await asyncio.to_thread(self._server.restart)
                group.create_task(self._trouble(kinds[number % len(kinds)]))
                await asyncio.sleep(plan.every)

    async def _trouble(self, kind: Callable[[_Node], Awaitable[None]]) -> None:
        well = [node for node in self._nodes if not node.is_in_trouble]
        if len(well) < 2:
            self.troubles.append("all others are in trouble still")
            return
        node = self._dice.choice(well)
        node.is_in_trouble = True
        self.troubles.append(f"{kind.__name__[1:]} {node.name}")
        await kind(node)
        node.is_in_trouble = False

    async def _kill(self, node: _Node) -> None:
        node.signal(signal.SIGKILL)
        await node.end()
        await asyncio.sleep(1.0)
        await node.start()

    async def _freeze(self, node: _Node) -> None:
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._plan.frozen_for)
        node.signal(signal.SIGCONT)

    async def _cut(self, node: _Node) -> None:
        node.wire.cut()
        await asyncio.sleep(self._plan.cut_for)
        node.wire.mend()

    async def _audited(self) -> tuple[int, dict[str, Any]]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "itinerary", "audit", "--json", "--store", self._url),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(_PATIENCE):
            said, _ = await process.communicate()
        assert process.returncode is not None, "it has ended"
        return process.returncode, msgspec.json.decode(said) if said else {}

    async def _without_row(self, begun: Sequence[Begun]) -> list[Begun]:
        first, last = min(one.instant for one in begun), max(one.instant for one in begun)
        async with open_store(self._url) as store:
            names = {job.number: job.name for job in await store.read(Jobs(limit=1_000_000))}
            keys = await store.read(Decided(first, last + 1, limit=10_000_000))
        decided = {(names[key.job], key.instant) for key in keys}
        return [one for one in begun if (one.job, one.instant) not in decided]

    async def _bury(self, node: _Node) -> None:
        """Leave no process behind, whatever happened."""
        node.signal(signal.SIGCONT)
        node.signal(signal.SIGKILL)
        await node.end()

    def _log(self) -> str:
        lines: list[str] = []
        for node in self._nodes:
            path = self._directory / f"{node.name}.log"
            lines += [f"{node.name}: {line}" for line in path.read_text("utf-8", "replace").splitlines()[-15:]]
        return "\n".join(lines)


def raise_storm(server: PostgresServer, directory: Path, plan: Plan) -> Outcome:
    """Play it, to the end."""
    with server.database() as url:
        return asyncio.run(_Storm(server, url, directory, plan).play())
