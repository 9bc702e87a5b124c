"""Simulated processes: what runs belongs to one, and one can stop dead without the others noticing.

All nodes of a simulated world share one thread and one event loop. What tells them apart is a context variable: a task
that was begun inside a process has that process in its context, and so has everything that the task begins in turn. The
loop reads it off each callback before it runs it:

    running     its callbacks run
    frozen      they are put by, timers that come due too, and run when it thaws (SIGSTOP, a long pause of the machine)
    held up     the same, but for what its other threads do: tasks run on, and report when the loop runs again
    crashed     they are put by for good (SIGKILL, a power cut): nothing of it runs again, not even its clean-up

What belongs to no process is the world's own: the network, the database, and whoever makes the weather. It never stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from enum import StrEnum
from typing import Final

__all__ = ["PROCESS", "Process", "ProcessState", "in_process", "outside", "thread_of"]


class ProcessState(StrEnum):
    """What a process is able to do."""

    RUNNING = "running"
    FROZEN = "frozen"
    HELD_UP = "held up"
    """Its event loop does not run: a callback takes too long. Its other threads run."""
    CRASHED = "crashed"


class Process:
    """One start of one simulated node."""

    __slots__ = ("_at_crash", "asked_to_end_at", "is_running", "name", "number", "parked", "state", "threads")

    def __init__(self, name: str, number: int, *, has_threads: bool = True) -> None:
        self.name = name
        self.number = number
        """Which start of the node it is, from 1."""
        self.state = ProcessState.RUNNING
        self.is_running = True
        self.asked_to_end_at: int | None = None
        """When its node was asked to shut down gracefully, by the store's clock."""
        self.parked: list[tuple[float, asyncio.Handle]] = []
        """Callbacks whose time came while it could not run, with that time."""
        self._at_crash: list[Callable[[], None]] = []
        self.threads: Process | None = Process(name, number, has_threads=False) if has_threads else None
        """Its other threads. They freeze and crash with the process, and run on while its loop is held up."""

    @property
    def incarnation(self) -> str:
        """What the store knows this start by (protocol rule 1)."""
        return f"{self.name}/{self.number}"

    def __repr__(self) -> str:
        return f"<process {self.incarnation} {self.state}>"

    def at_crash(self, act: Callable[[], None]) -> None:
        """Have the world do something at the moment of a crash: what the process ran is over then."""
        self._at_crash.append(act)

    def set_state(self, state: ProcessState) -> None:
        """Called by the loop, which knows what to do with the callbacks. A crash is for ever."""
        assert self.state is not ProcessState.CRASHED, f"{self} is not there any more"
        self.state = state
        self.is_running = state is ProcessState.RUNNING
        if state is ProcessState.CRASHED:
            for act in self._at_crash:
                act()


PROCESS: Final[ContextVar[Process | None]] = ContextVar("PROCESS", default=None)
"""The process that the running callback belongs to."""


@contextmanager
def in_process(process: Process | None) -> Iterator[None]:
    """What is begun in here belongs to this process."""
    token = PROCESS.set(process)
    try:
        yield
    finally:
        PROCESS.reset(token)


def thread_of(process: Process) -> Context:
    """A context that belongs to the other threads of a process."""
    context = copy_context()
    context.run(PROCESS.set, process.threads)
    return context


def outside() -> Context:
    """A context that belongs to no process: for what the world does, whoever asked for it."""
    context = copy_context()
    context.run(PROCESS.set, None)
    return context
