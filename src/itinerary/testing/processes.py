"""Simulated processes: each callback belongs to one process, and a process can stop without an effect on the others.

All nodes of a simulated world share one thread and one event loop. A context variable tells them apart. A task that
starts inside a process has the process in its context, and so do all tasks that this task starts. The loop reads the
variable before it runs a callback:

    running     the callbacks run
    frozen      callbacks and due timers are set aside, and run after the thaw (SIGSTOP, a long pause of the machine)
    held up     the same, but other threads run: tasks continue, and report when the loop runs again
    crashed     the callbacks never run (SIGKILL, a power cut), not even the clean-up

Callbacks without a process belong to the world (the network, the database, and the faults), and never stop.
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
    """The state of a process."""

    RUNNING = "running"
    FROZEN = "frozen"
    HELD_UP = "held up"
    """The event loop is stopped, as by a callback that takes too long. Other threads run."""
    CRASHED = "crashed"


class Process:
    """A start of a simulated node."""

    __slots__ = ("_at_crash", "asked_to_end_at", "is_running", "name", "number", "parked", "state", "threads")

    def __init__(self, name: str, number: int, *, has_threads: bool = True) -> None:
        self.name = name
        self.number = number
        """The number of the start, from 1."""
        self.state = ProcessState.RUNNING
        self.is_running = True
        self.asked_to_end_at: int | None = None
        """The time of the first request for a graceful shutdown, by the store clock."""
        self.parked: list[tuple[float, asyncio.Handle]] = []
        """Callbacks that became due while the process could not run, with their due times."""
        self._at_crash: list[Callable[[], None]] = []
        self.threads: Process | None = Process(name, number, has_threads=False) if has_threads else None
        """The other threads, which freeze and crash with the process, but run while its loop is held up."""

    @property
    def incarnation(self) -> str:
        """The name of this start in the store (protocol rule 1)."""
        return f"{self.name}/{self.number}"

    def __repr__(self) -> str:
        return f"<process {self.incarnation} {self.state}>"

    def at_crash(self, act: Callable[[], None]) -> None:
        """Register a callback for a crash of the process."""
        self._at_crash.append(act)

    def set_state(self, state: ProcessState) -> None:
        """Change the state. Only the loop calls this, since it handles the callbacks. A crash is final."""
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
    """Assign all tasks and callbacks that start inside to this process."""
    token = PROCESS.set(process)
    try:
        yield
    finally:
        PROCESS.reset(token)


def thread_of(process: Process) -> Context:
    """Return a context that belongs to the other threads of a process."""
    context = copy_context()
    context.run(PROCESS.set, process.threads)
    return context


def outside() -> Context:
    """Return a context that belongs to no process, for actions of the world."""
    context = copy_context()
    context.run(PROCESS.set, None)
    return context
