"""The router: an executor that sends each attempt to the executor that can run it.

    {"python": …}    functions: async, thread or process          {"shell": …}    shell
    {"http": …}      http                                         {"pod": …}      pods
    other keys       an entry point of that name

`executor` selects one of the function executors. The name of an installed executor sends any task there.

Stop and kill go to all executors, because an executor ignores unknown attempts. This costs less than remembering the
executor of each of ten thousand attempts.
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
    """An executor of executors. `by_kind` has the built-in ones by definition key; others come from entry points."""

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
        # At the same time: a slow executor must not stop the others from ending their attempts.
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
        """Return the leftovers of all executors."""
        found: list[Leftover] = []
        for executor in self._by_kind.values():
            if isinstance(executor, LeavesBehind):
                found += await executor.left_behind()
        return found

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        """Remove these leftovers. An executor ignores the leftovers of other executors."""
        for executor in self._by_kind.values():
            if isinstance(executor, LeavesBehind):
                await executor.remove(leftovers)

    def _kind(self, assignment: Assignment) -> str:
        run = assignment.run
        if len(run) == 1 and "python" in run and assignment.executor in FUNCTION_EXECUTORS:
            return "python"  # nearly all tasks; the executor reads the definition again in full
        definition = read_task(run, assignment.executor, self._registry)
        if isinstance(definition, ForeignTask):
            return definition.executor
        return next(kind for kind in ("pod", "python", "shell", "http") if kind in run)

    def _say(self, key: AttemptKey, outcome: Failed) -> None:
        assert self._report is not None, "nobody to report to: the executor was never opened"
        self._report((Ended(key, outcome),))


class ExecutorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings for the executors of a node. No definition can change them."""

    secrets: SecretResolver = environment_secret
    allowed_hosts: tuple[str, ...] = ()
    """Hosts that HTTP calls may reach even at non-public addresses: `name`, or `name:port`."""
    policy: TaskPolicy = TaskPolicy()
    """The hosts that may receive a secret, and the pods that may be created."""
    threads_max: int = THREADS_MAX
    workers_max: int | None = None
    """The most worker processes; None for one per core, and at least two."""
    paths: Mapping[str, str] | None = None
    """Modules that are files, for worker processes; None for the program's main module."""
    user: str | int | None = None
    """The user that commands run as; None for the user of the node."""
    group: str | int | None = None
    node: str | None = None
    """A unique id of this start of the node; None to create one."""
    kill_grace: float = 10.0
    """The time from the stop of an attempt to its kill, in seconds. The grace period of a pod is shorter."""
    uses_pods: bool = False
    """True if a job uses pods. The node then looks for leftover pods from the beginning."""
    pod_namespace: str | None = None
    """The namespace of pods whose definition has none; None for the namespace of the credentials."""


def standard_router(
    registry: Registry,
    options: ExecutorOptions | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    transaction: TransactionFactory | None = None,
    clock: Clock | None = None,
) -> tuple[Router, CoroutineExecutor]:
    """Create a router with all executors of Itinerary.

    Args:
        registry: The functions that definitions may name.
        options: The operator's settings.
        loop: The loop for coroutines; None for one in its own thread.
        transaction: Opens store transactions for tasks.
        clock: The clock that measures blocked loops.

    Returns:
        The router, and its executor of coroutines, for its `blocked_for`.
    """
    from itinerary.executors.http import HttpExecutor  # noqa: PLC0415 - aiohttp takes longer to import than the rest
    from itinerary.executors.pods.executor import PodExecutor  # noqa: PLC0415 - slow to import, too

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
