"""A storm: several nodes as real processes on a real PostgreSQL, and one trouble after the other.

    of a process     kill        with -9, and started again
                     freeze      for longer than every timeout, and thawed
                     terminate   SIGTERM, and started again once it has ended
    of its network   cut         silent for longer than every timeout, then every connection breaks
                     drop        bytes are lost, and the connections stay open when it heals
                     stall       nothing passes, and everything arrives late when it heals
                     half_open   requests arrive, and answers are lost
                     delay       each message takes longer
                     commit      COMMITs are done, and the connection breaks before the answer
                     silence     nothing passes, and the node gets SIGTERM meanwhile
    of the database  backends    some of its processes stand still
    and, as often as the plan says, the database itself is restarted

Each node has a proxy of its own (`tests.proxy`). In the end everything is left in peace for a while and the nodes are
asked to end. What happened is judged by `itinerary audit`, and by what the tasks themselves wrote down
(`tests.integration.nodes.judge`).
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
from itinerary.model.queries import ActiveQuery
from itinerary.model.settings import Settings
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.stores import open_store
from tests.integration.nodes.evidence import Begun, clock, read, read_ends
from tests.integration.nodes.judge import Judgement, Trouble, judge
from tests.proxy import Proxy
from tests.servers import PostgresServer

__all__ = ["Outcome", "Plan", "raise_storm"]

_PATIENCE = 120.0
"""How long a node may take to end, or an audit to look at everything."""
_OF_SHUTDOWN = ("shutdown_grace_period", "kill_grace")


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
    kinds: tuple[str, ...]
    """The troubles, one after the other and from the beginning again."""
    frozen_for: float
    """Longer than every timeout."""
    cut_for: float
    restarts: int
    """Of the database."""
    settles_for: float
    settings: dict[str, str]
    seed: int = 1

    @property
    def late_for(self) -> float:
        """Seconds in which an instant is merely late, less one for a start that was on its way."""
        grace_period = parse_duration(self.settings.get("grace_period", "30s")) / SECOND
        return grace_period + Settings().takeover_after / SECOND - 1.0

    @property
    def ends_within(self) -> float:
        """Seconds that a whole shutdown may take."""
        named = {name: parse_duration(self.settings[name]) for name in _OF_SHUTDOWN if name in self.settings}
        return msgspec.structs.replace(Settings(), **named).shutdown_timeout / SECOND


class Outcome(NamedTuple):
    """What happened."""

    begun: Sequence[Begun]
    judgement: Judgement
    shares: Counter[str]
    """What each node began while all were up."""
    audit: dict[str, Any]
    audit_code: int
    exits: list[int]
    ended_after: list[float]
    """For each SIGTERM, the seconds until its process had ended."""
    troubles: list[Trouble]
    log: str
    """The last lines of what the nodes logged."""


class _Node:
    """A node that is started again when it was killed."""

    def __init__(self, name: str, directory: Path, plan: Plan, proxy: Proxy) -> None:
        self.name, self.proxy = name, proxy
        self._directory, self._plan = directory, plan
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
                *("--log", "json", "--name", self.name, "--store", self.proxy.url, "--no-web"),
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
        self._exits: list[int] = []
        self._ended_after: list[float] = []
        self.troubles: list[Trouble] = []

    async def play(self) -> Outcome:
        (self._directory / "evidence").mkdir()
        plan = self._plan
        async with AsyncExitStack() as stack:
            for number in range(plan.nodes):
                proxy = stack.enter_context(Proxy(self._url))
                node = _Node(f"node{number}", self._directory, plan, proxy)
                stack.push_async_callback(self._bury, node)
                self._nodes.append(node)
            await asyncio.gather(*(node.start() for node in self._nodes))
            await self._until_all_work()
            calm_from = clock()
            await asyncio.sleep(plan.calm_for)
            calm_to = clock()
            await self._blow()
            calm_at = clock()
            await asyncio.sleep(plan.settles_for)
            await self._until_settled(calm_at)
            await asyncio.gather(*(self._obeyed(node) for node in self._nodes))
        code, audited = await self._audited()
        begun = list(read(self._directory / "evidence"))
        shares = Counter(one.node for one in begun if calm_from <= one.at < calm_to)
        async with open_store(self._url) as store:
            ends = read_ends(self._directory / "evidence")
            judgement = await judge(store, begun, ends, self.troubles, calm_at=calm_at, late_for=plan.late_for)
        return Outcome(
            begun, judgement, shares, audited, code, self._exits, self._ended_after, self.troubles, self._log()
        )

    async def _until_all_work(self) -> None:
        """Each of them has begun something, and has had the time to hear of the others since."""
        async with asyncio.timeout(_PATIENCE):
            while len({one.node for one in read(self._directory / "evidence")}) < len(self._nodes):  # noqa: ASYNC110 - other processes
                await asyncio.sleep(0.2)
        await asyncio.sleep(self._plan.meets_for)

    async def _until_settled(self, before: float) -> None:
        """Wait until everything has ended that was due before this time, for as long as something ends."""
        left, since = -1, clock()
        async with open_store(self._url) as store:
            while rows := await store.read(ActiveQuery(due_before=round(before * SECOND), limit=100_000)):
                if len(rows) != left:
                    left, since = len(rows), clock()
                if clock() - since > _PATIENCE:
                    return  # the judge complains about what is stuck
                await asyncio.sleep(1.0)

    async def _blow(self) -> None:
        plan = self._plan
        kinds: list[Callable[[_Node], Awaitable[None]]] = [getattr(self, f"_{kind}") for kind in plan.kinds]
        count = int(plan.blows_for // plan.every)
        restarts = {round((number + 1) * count / (plan.restarts + 1)) for number in range(plan.restarts)}
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                if number in restarts:
                    await self._restart_database()
                group.create_task(self._trouble(plan.kinds[number % len(kinds)], kinds[number % len(kinds)]))
                await asyncio.sleep(plan.every)

    async def _restart_database(self) -> None:
        start = clock()
        await asyncio.to_thread(self._server.restart)
        self.troubles.append(Trouble("restart", None, start, clock()))

    async def _trouble(self, name: str, kind: Callable[[_Node], Awaitable[None]]) -> None:
        well = [node for node in self._nodes if not node.is_in_trouble]
        if len(well) < 2:
            return  # all others are in trouble still
        node = self._dice.choice(well)
        node.is_in_trouble = True
        start = clock()
        await kind(node)
        self.troubles.append(Trouble(name, None if name == "backends" else node.name, start, clock()))
        node.is_in_trouble = False

    # -- troubles of a process ---------------------------------------------------------------------------------------

    async def _kill(self, node: _Node) -> None:
        node.signal(signal.SIGKILL)
        await node.end()
        await asyncio.sleep(1.0)
        await node.start()

    async def _freeze(self, node: _Node) -> None:
        node.signal(signal.SIGSTOP)
        await asyncio.sleep(self._plan.frozen_for)
        node.signal(signal.SIGCONT)

    async def _terminate(self, node: _Node) -> None:
        await self._obeyed(node)
        await node.start()

    # -- troubles of a network ---------------------------------------------------------------------------------------

    async def _cut(self, node: _Node) -> None:
        node.proxy.stall()
        await asyncio.sleep(self._plan.cut_for)
        node.proxy.cut()
        node.proxy.heal()

    async def _drop(self, node: _Node) -> None:
        node.proxy.drop()
        await self._healed(node)

    async def _stall(self, node: _Node) -> None:
        node.proxy.stall()
        await self._healed(node)

    async def _half_open(self, node: _Node) -> None:
        node.proxy.half_open("answers")
        await self._healed(node)

    async def _delay(self, node: _Node) -> None:
        node.proxy.delay(self._dice.uniform(0.05, 0.5))
        await self._healed(node)

    async def _commit(self, node: _Node) -> None:
        node.proxy.cut_at_commit("answered", count=5)
        node.proxy.cut_at_commit("forwarded", count=5)
        await self._healed(node)

    async def _silence(self, node: _Node) -> None:
        node.proxy.stall()
        try:
            await self._obeyed(node)
        finally:
            node.proxy.cut()
            node.proxy.heal()
        await node.start()

    async def _healed(self, node: _Node) -> None:
        await asyncio.sleep(self._dice.uniform(0.2, 1.0) * self._plan.cut_for)
        node.proxy.heal()

    # -- troubles of the database ------------------------------------------------------------------------------------

    async def _backends(self, _: _Node) -> None:
        backends = await asyncio.to_thread(self._server.backends)
        some = self._dice.sample(backends, k=(len(backends) + 1) // 2)
        with self._server.frozen(some):
            await asyncio.sleep(self._dice.uniform(0.2, 1.0) * self._plan.cut_for)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _obeyed(self, node: _Node) -> None:
        """Ask a node to end, and keep how and when it did."""
        start = clock()
        node.signal(signal.SIGTERM)
        self._exits.append(await node.end())
        self._ended_after.append(clock() - start)

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
