"""The executor that owns the others: each attempt goes to the one that can run it.

    {"python": …}    functions: async, thread or process          {"shell": …}    shell
    {"http": …}      http                                         {"pod": …}      pods
    anything else    an entry point of that name

`executor` chooses among those of a function; one that names an installed executor sends the task there, whatever it is.
Stop and kill go to all of them, since whoever does not know an attempt leaves it alone: that costs less than to
remember, for each of ten thousand attempts, where it went.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec

from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.executors.definitions import BUILT_IN, FUNCTION_EXECUTORS, ForeignTask, read_task
from itinerary.executors.entry_points import installed, load
from itinerary.executors.functions import FunctionExecutor
from itinerary.executors.outcomes import could_not_begin
from itinerary.executors.plugin import GuardedExecutor
from itinerary.executors.processes import ProcessExecutor
from itinerary.executors.registry import Registry
from itinerary.executors.secrets import SecretResolver, environment_secret
from itinerary.executors.shell import ShellExecutor
from itinerary.executors.supervision import Supervision
from itinerary.executors.task_policy import TaskPolicy
from itinerary.executors.threads import THREADS_MAX, ThreadExecutor
from itinerary.executors.transactions import TransactionFactory
from itinerary.model.attempts import Assignment, AttemptKey, Ended, Failed, Leftover, Report
from itinerary.ports import Clock, Executor, LeavesBehind

__all__ = ["ExecutorOptions", "Router", "standard_router"]


class Router:
    """An executor of executors. `by_kind`: by the key of a definition; others come from entry points."""

    def __init__(self, registry: Registry, by_kind: Mapping[str, Executor]) -> None:
        self._registry = registry
        self._by_kind = dict(by_kind)
        self._report: Callable[[Sequence[Report]], None] | None = None
        self._is_closed = False

    async def open(self, report: Callable[[Sequence[Report]], None]) -> None:
        assert self._report is None, "an executor is opened once"
        self._report = report
        for name in installed():
            if name not in self._by_kind and name not in BUILT_IN:
                self._by_kind[name] = GuardedExecutor(name, lambda name=name: load(name)())  # type: ignore[misc]  # a default that binds the name
        for executor in self._by_kind.values():
            await executor.open(report)

    async def close(self) -> None:
        if self._is_closed or self._report is None:
            return
        self._is_closed = True
        # All at the same time: one that takes long must not keep the others from ending what they run.
        await asyncio.gather(*(executor.close() for executor in self._by_kind.values()))

    def begin(self, assignments: Sequence[Assignment]) -> None:
        batches: dict[str, list[Assignment]] = {}
        for assignment in assignments:
            try:
                kind = self._kind(assignment)
            except Exception as error:  # noqa: BLE001 - an attempt ends here
                self._say(assignment.key, could_not_begin(error))
            else:
                batches.setdefault(kind, []).append(assignment)
        for kind, batch in batches.items():
            self._by_kind[kind].begin(batch)

    def stop(self, attempts: Sequence[AttemptKey]) -> None:
        for executor in self._by_kind.values():
            executor.stop(attempts)

    def kill(self, attempts: Sequence[AttemptKey]) -> None:
        for executor in self._by_kind.values():
            executor.kill(attempts)

    async def left_behind(self) -> Sequence[Leftover]:
        """What its executors have left behind."""
        found: list[Leftover] = []
        for executor in self._by_kind.values():
            if isinstance(executor, LeavesBehind):
                found += await executor.left_behind()
        return found

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        """Have these removed; whoever has left something else behind knows nothing of them."""
        for executor in self._by_kind.values():
            if isinstance(executor, LeavesBehind):
                await executor.remove(leftovers)

    def _kind(self, assignment: Assignment) -> str:
        run = assignment.run
        if len(run) == 1 and "python" in run and assignment.executor in FUNCTION_EXECUTORS:
            return "python"  # nearly all of them; read again, in full, by who runs it
        definition = read_task(run, assignment.executor, self._registry)
        if isinstance(definition, ForeignTask):
            return definition.executor
        return next(kind for kind in ("pod", "python", "shell", "http") if kind in run)

    def _say(self, key: AttemptKey, outcome: Failed) -> None:
        assert self._report is not None, "nobody to report to: the executor was never opened"
        self._report((Ended(key, outcome),))


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of a node decides about its executors. No definition can change it."""

    secrets: SecretResolver = environment_secret
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that HTTP calls may reach though their addresses are not public: `name`, or `name:port`."""
    policy: TaskPolicy = TaskPolicy()
    """Which hosts a secret may be sent to, and which pods may be created."""
    threads_max: int = THREADS_MAX
    workers_max: int | None = None
    """None: one for each core, and at least two."""
    paths: Mapping[str, str] | None = None
    """Modules that are files, for worker processes; None: the program's main module."""
    user: str | int | None = None
    """Whom commands run as; None: whom the node runs as."""
    group: str | int | None = None
    node: str | None = None
    """An id that no other start of any node has; None: one is made up."""
    kill_grace: float = 10.0
    """From the stop of an attempt to its kill, in seconds: the grace of a pod is less."""
    uses_pods: bool = False
    """Whether some job has pods: then those that were left behind are looked for from the beginning."""
    pod_namespace: str | None = None
    """The namespace of pods that name none; None: the one of the credentials."""


def standard_router(
    registry: Registry,
    options: ExecutorOptions | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    transaction: TransactionFactory | None = None,
    clock: Clock | None = None,
) -> tuple[Router, CoroutineExecutor]:
    """All executors that come with Itinerary; and again the one that runs coroutines, for its `blocked_for`."""
    from itinerary.executors.http import HttpExecutor  # noqa: PLC0415 - aiohttp takes longer to import than the rest
    from itinerary.executors.pods.executor import PodExecutor  # noqa: PLC0415 - so does this

    options = ExecutorOptions() if options is None else options
    supervision = Supervision()
    coroutines = CoroutineExecutor(registry, loop=loop, transaction=transaction, clock=clock)
    functions = FunctionExecutor(
        registry,
        coroutines,
        ThreadExecutor(registry, threads_max=options.threads_max, transaction=transaction),
        ProcessExecutor(registry, workers_max=options.workers_max, paths=options.paths, supervision=supervision),
    )
    shell = ShellExecutor(secrets=options.secrets, user=options.user, group=options.group, supervision=supervision)
    http = HttpExecutor(
        allowed_hosts=options.allowed_hosts, secrets=options.secrets, secret_hosts=options.policy.secret_hosts
    )
    pods = PodExecutor(
        registry,
        node=options.node,
        kill_grace=options.kill_grace,
        uses_pods=options.uses_pods,
        namespace=options.pod_namespace,
        policy=options.policy.pods,
    )
    return Router(registry, {"python": functions, "shell": shell, "http": http, "pod": pods}), coroutines
