"""Every executor, and how to say to each what a task of the contract shall do."""

from __future__ import annotations

import asyncio
import functools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from aiohttp import web

from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.functions import FunctionExecutor
from itinerary.executors.http import HttpExecutor
from itinerary.executors.plugin import GuardedExecutor
from itinerary.executors.processes import ProcessExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.router import Router
from itinerary.executors.shell import ShellExecutor
from itinerary.executors.threads import ThreadExecutor
from itinerary.ports import Executor
from tests.contracts.executors import tasks
from tests.contracts.executors.stage import Stage

__all__ = ["BENCHES", "Bench", "benches", "told"]

_MODULE: Final = tasks.__name__


class Bench(ABC):
    """One executor, and its way to express a task."""

    cannot: ClassVar[frozenset[str]] = frozenset()
    """What no task of this kind can do."""
    is_forceful: ClassVar[bool] = False
    """Whether kill really ends it; otherwise it is given up."""
    queues_at_first: ClassVar[bool] = False
    """Whether nothing is called in the turn of the loop that begins it."""

    @abstractmethod
    def executor(self) -> Executor: ...

    @abstractmethod
    def run(self, what: str, stage: Stage) -> dict[str, Any]: ...

    @asynccontextmanager
    async def stage(self, tmp_path: Path) -> AsyncIterator[Stage]:
        async with Stage(self.executor(), tmp_path) as stage:
            yield stage


class Coroutines(Bench):
    cannot = frozenset({"print_something", "die"})

    def __init__(self) -> None:
        self.registry = Registry([_MODULE])

    def executor(self) -> Executor:
        return CoroutineExecutor(self.registry)

    def run(self, what: str, stage: Stage) -> dict[str, Any]:
        return {"python": "nonsense" if what == "impossible" else f"{_MODULE}:async_{what}"}


class CoroutinesOnTheEnginesLoop(Coroutines):
    queues_at_first = True

    def executor(self) -> Executor:
        return CoroutineExecutor(self.registry, loop=asyncio.get_running_loop())


class Threads(Bench):
    cannot = frozenset({"print_something", "die"})

    def __init__(self) -> None:
        self.registry = Registry([_MODULE])

    def executor(self) -> Executor:
        return ThreadExecutor(self.registry)

    def run(self, what: str, stage: Stage) -> dict[str, Any]:
        return {"python": "nonsense" if what == "impossible" else f"{_MODULE}:{what}"}


class Guarded(Threads):
    def executor(self) -> Executor:
        return GuardedExecutor("threads", lambda: ThreadExecutor(self.registry))


class Processes(Threads):
    cannot = frozenset()
    is_forceful = True
    queues_at_first = True

    def executor(self) -> Executor:
        return ProcessExecutor(self.registry, workers_max=2)


class Routed(Threads):
    """Everything that a router does, with the functions that belong into threads."""

    def executor(self) -> Executor:
        functions = FunctionExecutor(
            self.registry,
            CoroutineExecutor(self.registry),
            ThreadExecutor(self.registry),
            ProcessExecutor(self.registry),
        )
        return Router(self.registry, {"python": functions})


class Shell(Bench):
    cannot = frozenset({"leave", "interrupt", "result"})
    is_forceful = True

    def executor(self) -> Executor:
        return ShellExecutor()

    def run(self, what: str, stage: Stage) -> dict[str, Any]:
        ring = f"echo > {stage.bell.path}" if what in {"obey", "ignore"} else ""
        lines = {
            "succeed": "true",
            "nothing": "true",
            "fail": "exit 3",
            "print_something": "echo to standard output; echo to standard error >&2",
            "obey": f"{ring}; exec sleep 1000",
            "ignore": f"trap '' TERM; {ring}; while true; do sleep 1000; done",
            "die": "kill -9 $$",
        }
        if what == "impossible":
            return {"shell": [str(stage.bell.path.parent / "no such program")]}
        return {"shell": lines[what], "use_shell": True}


class Http(Bench):
    """Calls to a server on this machine's loopback, which does with them what the task shall do."""

    cannot = frozenset({"leave", "interrupt", "result"})
    is_forceful = True
    queues_at_first = True

    def __init__(self) -> None:
        self.address = ""
        self.never = asyncio.Event()

    def executor(self) -> Executor:
        return HttpExecutor(allowed_hosts=["127.0.0.1"])

    def run(self, what: str, stage: Stage) -> dict[str, Any]:
        path = "ftp://127.0.0.1/" if what == "impossible" else f"{self.address}/{what}"
        return {"http": path}

    @asynccontextmanager
    async def stage(self, tmp_path: Path) -> AsyncIterator[Stage]:
        async with super().stage(tmp_path) as stage:
            self._stage = stage
            server = web.Server(self._answer, handler_cancellation=True)
            listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
            port = listener.sockets[0].getsockname()[1]
            self.address = f"http://127.0.0.1:{port}"
            try:
                yield stage
            finally:
                listener.close()
                await server.shutdown(1.0)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/fail":
                return web.Response(status=500, text="no such thing")
            case "/print_something":
                return web.Response(text="to standard output\nto standard error\n")
            case "/obey" | "/ignore":
                self._stage.bell._rings.release()
                await self.never.wait()
                raise AssertionError("unreachable")
            case "/die":
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case _:
                return web.Response()


BENCHES: Final[dict[str, Callable[[], Bench]]] = {
    "coroutines": Coroutines,
    "engine-loop": CoroutinesOnTheEnginesLoop,
    "threads": Threads,
    "processes": Processes,
    "shell": Shell,
    "http": Http,
    "router": Routed,
    "guarded": Guarded,
}


def benches(*needs: str) -> pytest.MarkDecorator:
    """All executors whose tasks can do that."""
    able = [name for name, kind in BENCHES.items() if not kind.cannot & set(needs)]  # type: ignore[attr-defined]  # they are classes
    assert able
    return pytest.mark.parametrize("bench", able)


def told(test: Callable[[Bench, Stage], Awaitable[None]]) -> Callable[[str, Path], None]:
    """A test that is told as a story on a stage, with the executor that its parameter names."""

    def on_stage(bench: str, tmp_path: Path) -> None:
        async def story() -> None:
            played = BENCHES[bench]()
            async with played.stage(tmp_path) as stage:
                await test(played, stage)

        asyncio.run(story())

    functools.update_wrapper(on_stage, test)
    del on_stage.__dict__["__wrapped__"]
    on_stage.__annotations__ = {"bench": str, "tmp_path": Path, "return": None}
    return on_stage
