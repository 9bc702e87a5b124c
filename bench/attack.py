"""Attack: how late a node starts its runs while its web server is attacked, beside the usual, in the same run.

    idle           2,000 connections that say nothing, opened again as they are closed
    streams        200 streams and live pages from one token
    bodies         bodies of 1 MB, one after another on 8 connections
    heavy          20 requests a second from a read token: /upcoming and /plan with large windows; last, since a node
                   may work on them for long after their client has gone

The node is a process of its own on SQLite, with fifty jobs each second that do nothing. Each starts at its own moment
within the second (jitter), so 3,000 starts in a minute are 3,000 samples: of starts at the same moment, all would be as
late as the first. The node notes how late each start is and how each run ends. Every attack is bounded in count and in
time, and talks to loopback only. Before each attack the same is measured without one: the machine may be busy, so only
a ratio of neighbours means something.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.harness import Result
from bench.served_node import observed, served
from itinerary.config.log_setup import engine_log
from itinerary.connections.descriptors import raise_file_limit
from itinerary.core.loop.events import OccurrenceEnded, OccurrenceStarted, SchedulerEvent
from itinerary.model.occurrence import Kind
from itinerary.model.scopes import Scope
from itinerary.model.states import OccurrenceState
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import create
from itinerary.runtime.gc_tuning import relax_collector
from itinerary.runtime.thread_switching import switch_sooner
from itinerary.schedules.durations import SECOND
from itinerary.stores.urls import open_store

__all__ = ["ATTACKS", "run"]

IDLE: Final = 2_000
STREAMS: Final = 200
HEAVY_PER_SECOND: Final = 20
SENDERS: Final = 8
BODY: Final = b'{"file": "' + b"x" * 999_988 + b'"}'
"""1,000,000 bytes: the largest body that a server takes."""
_BUSY: Final = 50
_ANSWER_TIMEOUT: Final = 60.0
_BEGUN_AFTER: Final = 8.0
"""Seconds after which an attack is under way."""
_ATTACK_MAX: Final = 300.0
"""Seconds after which an attack ends by itself, whatever becomes of the bench."""
_STREAM_AGAIN_AFTER: Final = 10.0
"""Seconds after which a stream that was refused or closed is opened again: sooner it is an attack by requests."""
_NICE: Final = 10
"""The attacker has a lower priority than the node, since a real one uses the CPU of another machine."""


class Target(NamedTuple):
    """The node that is attacked."""

    port: int
    token: str

    def head(self, path: str, *lines: str, method: str = "GET") -> bytes:
        """Write the head of a request with the token."""
        given = (f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.token}", *lines)
        return "\r\n".join([f"{method} {path} HTTP/1.1", *given, "", ""]).encode()


Attack = Callable[[Target], Awaitable[None]]


def run(*, quick: bool) -> Iterator[Result]:
    """Measure each attack beside the usual."""
    observed_for = 10.0 if quick else 60.0
    with tempfile.TemporaryDirectory(prefix="itinerary-bench-") as directory:
        url = f"sqlite:///{Path(directory) / 'itinerary.db'}"
        token = asyncio.run(_token(url))
        with served("bench.attack", url) as (port, node):
            for name in ATTACKS:
                yield from _measured(name, Target(port, token), node, observed_for)


def _measured(name: str, target: Target, node: subprocess.Popen[str], observed_for: float) -> Iterator[Result]:
    usual = observed(node, observed_for)
    attacked = _under(name, target, node, observed_for)
    yield Result("attack", f"{name}_usual_p99_ms", usual["p99_ms"], "ms")
    yield Result("attack", f"{name}_p99_ms", attacked["p99_ms"], "ms")
    yield Result("attack", f"{name}_times_usual", attacked["p99_ms"] / max(usual["p99_ms"], 1e-3), "×")
    yield Result("attack", f"{name}_starts", attacked["starts"], "runs", more_is_better=True)
    yield Result("attack", f"{name}_failed", attacked["failed"], "runs")


def _under(name: str, target: Target, node: subprocess.Popen[str], observed_for: float) -> dict[str, float]:
    """Observe the node while a process of its own attacks it."""
    arguments = [sys.executable, "-m", "bench.attack", name, str(target.port), target.token]
    attacker = subprocess.Popen(arguments)  # noqa: S603 - ourselves
    try:
        time.sleep(_BEGUN_AFTER)
        found = observed(node, observed_for)
        assert attacker.poll() is None, f"the attack {name} has ended by itself"
        return found
    finally:
        attacker.kill()
        attacker.wait(60)


# -- attacks -----------------------------------------------------------------------------------------------------------


async def _idle(target: Target) -> None:
    async def stay_silent() -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
                try:
                    await reader.read()
                finally:
                    writer.close()
            await asyncio.sleep(1)

    await _all(stay_silent() for _ in range(IDLE))


async def _streams(target: Target) -> None:
    paths = ("/api/v1/events", "/", "/jobs", "/timeline")

    async def follow(path: str) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
                try:
                    writer.write(target.head(path, "Accept: text/event-stream"))
                    while await reader.read(65_536):
                        pass
                finally:
                    writer.close()
            await asyncio.sleep(_STREAM_AGAIN_AFTER)

    await _all(follow(paths[number % len(paths)]) for number in range(STREAMS))


async def _heavy(target: Target) -> None:
    job = '{"jobs": {"often": {"schedule": {"every": "1s"}, "tasks": [{"name": "a", "http": "https://a.example"}]}}, '
    body = f'{job}"window": "145000d"}}'.encode()
    plan = target.head(
        "/api/v1/plan", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close",
        method="POST",
    )  # fmt: skip
    upcoming = target.head("/api/v1/upcoming?for=366d&limit=1000", "Connection: close")
    asked: set[asyncio.Task[None]] = set()
    try:
        for number in range(1_000_000):
            task = asyncio.create_task(_ask(target, plan + body if number % 2 else upcoming))
            asked.add(task)
            task.add_done_callback(asked.discard)
            await asyncio.sleep(1 / HEAVY_PER_SECOND)
    finally:
        for task in asked:
            task.cancel()


async def _bodies(target: Target) -> None:
    head = target.head(
        "/api/v1/plan", "Content-Type: application/json", f"Content-Length: {len(BODY)}", "Connection: close",
        method="POST",
    )  # fmt: skip

    async def send() -> None:
        while True:
            await _ask(target, head + BODY)

    await _all(send() for _ in range(SENDERS))


async def _ask(target: Target, request: bytes) -> None:
    with suppress(OSError):
        async with asyncio.timeout(_ANSWER_TIMEOUT):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
            try:
                writer.write(request)
                await reader.read()
            finally:
                writer.close()


async def _all(works: Iterator[Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_begun(work))


async def _begun(work: Awaitable[None]) -> None:
    await work


ATTACKS: Final[dict[str, Attack]] = {"idle": _idle, "streams": _streams, "bodies": _bodies, "heavy": _heavy}


# -- the node, in a process of its own ---------------------------------------------------------------------------------


async def _token(url: str) -> str:
    async with open_store(url) as store:
        return (await create(store, "attacker", Scope.READ, by="bench")).text


class _Notes:
    """What the node tells of its runs."""

    def __init__(self) -> None:
        self.lateness: list[int] = []
        self.ends: Counter[OccurrenceState] = Counter()

    def handle(self, news: Sequence[SchedulerEvent]) -> None:
        """Note starts and ends. Called on the engine's loop."""
        for item in news:
            if isinstance(item, OccurrenceStarted) and item.recovery is None and item.key.kind is Kind.SCHEDULED:
                self.lateness.append(item.started_at - item.due_at)
            elif isinstance(item, OccurrenceEnded):
                self.ends[item.outcome] += 1

    def report(self) -> dict[str, float]:
        """Return the figures since the last report was begun."""
        late = sorted(self.lateness) or [0]
        done = self.ends[OccurrenceState.COMPLETED]
        p99 = late[int(len(late) * 0.99)] / SECOND * 1e3
        return {"p99_ms": p99, "starts": len(self.lateness), "failed": self.ends.total() - done}

    def clear(self) -> None:
        """Begin a new report."""
        self.lateness.clear()
        self.ends.clear()


async def _serve(url: str) -> None:
    from itinerary import Itinerary, every  # noqa: PLC0415 - only the node needs them
    from itinerary.web.server import WebServer  # noqa: PLC0415 - as above

    raise_file_limit()  # as `itinerary up` does
    switch_sooner()
    app = Itinerary(store=url, allow_modules=["bench"], health=None)
    for number in range(_BUSY):
        app.job(f"busy {number:02}", every("1s", jitter="1s")).task(_nothing)
    notes = _Notes()
    app.observe(notes.handle)
    async with app.running() as node:
        server = WebServer(ListenAt("127.0.0.1", 0), log=engine_log())
        at = server.bind()
        await asyncio.to_thread(server.start, node, app.configuration)
        try:
            await asyncio.sleep(5)
            relax_collector()  # as `itinerary up` does
            print(json.dumps({"port": at.port}), flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                notes.clear()
                await asyncio.sleep(float(line))
                print(json.dumps(notes.report()), flush=True)
        finally:
            await asyncio.to_thread(server.stop)


async def _nothing() -> None:
    """Do nothing, as the busy jobs do."""


async def _attack(name: str, port: str, token: str) -> None:
    raise_file_limit()
    os.nice(_NICE)
    async with asyncio.timeout(_ATTACK_MAX):
        await ATTACKS[name](Target(int(port), token))


if __name__ == "__main__":
    match sys.argv[1:]:
        case [url]:
            asyncio.run(_serve(url))
        case [name, port, token]:
            asyncio.run(_attack(name, port, token))
