"""The executor of pods: from an attempt to its pod, and from the pod to an outcome.

    begin ──► created, or found and adopted ──► observed until it ends ──► ended ──► its log ──► Ended
                                                  │ Moved: container_creating, running, terminating
    stop  ──► deleted, with a grace period        └ hopeless: Moved with the error, and the core stops it
    kill  ──► deleted at once after a stop; otherwise left alone, because another node may own it now

**Deletion.** A stop arrives when the decision to end the attempt is durable, under the fence of this node (protocol
rule 28). A kill alone means only that this node no longer follows the attempt. A pod is deleted by its UID, never
another pod of the same name.

**Adoption.** A label of the pod has the fence of its owner. A node that follows a pod first writes its own fence there,
with a patch that fails if another node was faster. A fence higher than the node's own means that another node owns the
pod. If two nodes both consider an attempt theirs, only one follows the pod.

**Created once.** The name is the attempt's id, so a create whose answer was lost can be repeated without harm. If the
row says that the attempt has begun and the pod is gone, a user deleted it, and it is not created again. A node that
slept for long must not create a pod that another node has followed to its end and removed. Nodes therefore create no
pod later than `CREATE_WITHIN`, and keep finished pods longer than that.

**Unreachable does not mean dead.** While the API server does not answer, the executor draws no conclusions, and
retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar
from uuid import uuid4

import structlog

from itinerary.executors.base import BaseExecutor
from itinerary.executors.outcomes import could_not_begin
from itinerary.executors.pods.api_client import ApiRefused, Cluster, Unreachable, connect
from itinerary.executors.pods.attempts import PodAttempt
from itinerary.executors.pods.cleanup import LEFT_BEHIND, leftover
from itinerary.executors.pods.logs import PodLogReader
from itinerary.executors.pods.manifest import NODE, adoption, manifest, pod_spec, selector
from itinerary.executors.pods.policy import PodPolicy
from itinerary.executors.pods.status import DELETED, PodStatus, gone, seen
from itinerary.executors.pods.watch import Watch, backed_off
from itinerary.executors.registry import Registry
from itinerary.model.attempts import Assignment, Failed, Leftover, Outcome, PodMoved, Stopped
from itinerary.model.states import OccurrenceState
from itinerary.model.text import clean_text

__all__ = ["CREATE_WITHIN", "PodExecutor"]

CREATE_WITHIN: Final = 30 * 60.0
"""The longest time from the beginning of an attempt to the creation of its pod, in seconds."""
_CALLS_MAX: Final = 40
_LAST_CALLS: Final = 5.0

T = TypeVar("T")

_log: Final = structlog.stdlib.get_logger()


class PodExecutor(BaseExecutor[PodAttempt]):
    """The executor of pods, in the cluster of this process's credentials."""

    def __init__(
        self,
        registry: Registry,
        *,
        node: str | None = None,
        kill_grace: float = 10.0,
        uses_pods: bool = False,
        namespace: str | None = None,
        policy: PodPolicy | None = None,
        reach: Callable[[], Awaitable[Cluster]] = connect,
    ) -> None:
        """Create the executor.

        Args:
            registry: The functions that definitions may name.
            node: A unique id of this start of the node.
            kill_grace: The time from the stop of an attempt to its kill, in seconds.
            uses_pods: True to look for leftover pods even before the first pod runs.
            namespace: The namespace of pods whose definition has none; None for the namespace of the credentials.
            policy: The pods that may be created; None for pods without rights on their machine.
            reach: Connects to the cluster.
        """
        super().__init__()
        self._registry, self._node, self._kill_grace = registry, node or str(uuid4()), kill_grace
        self._uses_pods, self._namespace, self._reach = uses_pods, namespace, reach
        self._policy = PodPolicy() if policy is None else policy
        self._cluster: Cluster | None = None
        self._by_name: dict[str, PodAttempt] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def _prepare(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connecting, self._calls = asyncio.Lock(), asyncio.Semaphore(_CALLS_MAX)
        self._logs = PodLogReader(self._calls, self._spawn)

    async def _shut_down(self) -> None:
        """Stop following. The pods continue, and the next owners of their occurrences follow them."""
        for attempt in self._in_flight.values():
            attempt.let_go()
        for watch in self._watches.values():
            watch.cancel()
        waiting = [*self._tasks, *self._watches.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=_LAST_CALLS)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_LAST_CALLS)
        if self._cluster is not None:
            await self._cluster.close()

    def _accept(self, assignment: Assignment) -> PodAttempt:
        attempt = PodAttempt(assignment, self._registry)
        if not assignment.has_begun:  # a running pod is followed to its end, even if the policy has changed
            self._policy.check(pod_spec(attempt.task, attempt.run), attempt.task.namespace)
        return attempt

    def _launch(self, attempt: PodAttempt) -> None:
        attempt.began_at = self._loop.time()
        self._by_name[attempt.name] = attempt
        attempt.life = self._spawn(self._live(attempt))

    def _stop(self, attempt: PodAttempt) -> None:
        attempt.is_stop_asked = True
        attempt.changed.set()

    def _kill(self, attempt: PodAttempt) -> None:
        attempt.is_given_up = True
        attempt.let_go()
        if attempt.is_stop_asked:
            self._spawn(self._force(attempt))
        self._end(attempt.key, Stopped(abandoned=True, output=attempt.tail.text()))

    def _spawn(self, call: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the life of a pod ---------------------------------------------------------------------------------------------

    async def _live(self, attempt: PodAttempt) -> None:
        try:
            outcome = await self._lived(attempt)
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            outcome = could_not_begin(error)
        finally:
            if self._by_name.get(attempt.name) is attempt:
                del self._by_name[attempt.name]
            if attempt.reader is not None:
                attempt.reader.cancel()
        if not self._end(attempt.key, outcome):
            self._came_back(attempt.assignment, outcome)

    async def _lived(self, attempt: PodAttempt) -> Outcome:
        cluster = await self._connected()
        attempt.namespace = attempt.task.namespace or cluster.namespace
        self._watch(cluster, attempt.namespace)
        nothing = await self._retried(attempt, lambda: self._placed(cluster, attempt))
        while nothing is None:
            sight = attempt.sight
            assert sight is not None, "it was placed"
            if sight.is_gone and not attempt.is_deleted:
                sight = attempt.sight = await self._retried(attempt, lambda: self._confirmed(cluster, attempt))
            if sight.fence > attempt.assignment.fence:
                return Stopped(abandoned=True)
            if sight.is_over:
                await self._logs.read(cluster, attempt, sight)
                if attempt.tail.takes_long:
                    return await asyncio.to_thread(attempt.outcome, sight)
                return attempt.outcome(sight)
            nothing = await self._turn(cluster, attempt, sight)
        return nothing

    async def _turn(self, cluster: Cluster, attempt: PodAttempt, sight: PodStatus) -> Outcome | None:
        """Handle the current state of an existing pod, and wait for the next change."""
        if sight.state is not attempt.said:
            attempt.said = sight.state
            self._say(PodMoved(attempt.key, sight.state))
        wait = attempt.patience(self._loop.time())
        if attempt.is_stop_asked and not attempt.is_deleted:
            await self._retried(attempt, lambda: self._deleted(cluster, attempt))
            return None
        if sight.state is OccurrenceState.TERMINATING:
            self._logs.follow(cluster, attempt)
        elif sight.trouble is not None and wait == 0 and not attempt.is_doomed:
            attempt.is_doomed = True
            self._say(PodMoved(attempt.key, OccurrenceState.TERMINATING, clean_text(sight.trouble.error)))
        await attempt.until_changed(None if attempt.is_doomed else wait)
        return None

    async def _placed(self, cluster: Cluster, attempt: PodAttempt) -> Outcome | None:
        """Create the pod, or find it. Return None if this node follows it, otherwise the outcome."""
        assignment = attempt.assignment
        try:
            pod = await self._made_or_found(cluster, attempt)
        except ApiRefused as error:
            if attempt.was_there or attempt.is_stop_asked:
                raise
            return Failed(clean_text(f"its pod cannot be created: {error}"))
        if pod is None and attempt.is_stop_asked:
            return Stopped()
        if pod is None:
            return Failed(f"{DELETED}, while nobody looked" if attempt.was_there else attempt.too_late())
        sight = seen(pod)
        if sight.attempt != attempt.name:
            return Failed(f"a pod {attempt.name} is there already, and is not this attempt's; remove it")
        if sight.fence > assignment.fence:
            return Stopped(abandoned=True)
        if pod["metadata"]["labels"].get(NODE) != self._node or sight.fence != assignment.fence:
            # Refused if another node was faster, or the pod is gone. The retry then reads it again.
            pod = await cluster.patch(attempt.namespace, attempt.name, adoption(self._node, assignment.fence, pod))
            _log.info("pod.adopted", pod=attempt.name, namespace=attempt.namespace, job=assignment.facts.job)
        attempt.see(seen(pod))
        return None

    async def _made_or_found(self, cluster: Cluster, attempt: PodAttempt) -> dict[str, Any] | None:
        attempt.was_there = attempt.was_there or attempt.assignment.has_begun
        if not attempt.was_there and not attempt.is_stop_asked:
            if self._loop.time() - attempt.began_at > CREATE_WITHIN:
                return None
            try:
                pod = manifest(attempt.task, attempt.assignment, self._node, attempt.run)
                self._policy.check(pod["spec"], attempt.namespace)  # the namespace is known only now
                return await cluster.create(attempt.namespace, pod)
            except ApiRefused as error:
                if error.status != 409:
                    raise
                attempt.was_there = True
        return await cluster.find(attempt.namespace, attempt.name)

    async def _confirmed(self, cluster: Cluster, attempt: PodAttempt) -> PodStatus:
        """Check whether a pod that the watch no longer shows is gone. Another node may have adopted it."""
        pod = await cluster.find(attempt.namespace, attempt.name)
        last = attempt.sight
        if pod is None or (last is not None and pod["metadata"]["uid"] != last.uid):
            return gone(attempt.last)
        return seen(pod)

    async def _deleted(self, cluster: Cluster, attempt: PodAttempt) -> None:
        assert attempt.sight is not None, "it was placed"
        self._logs.follow(cluster, attempt)
        grace = max(1, int(self._kill_grace / 2))
        template = attempt.task.template.get("spec", {}).get("terminationGracePeriodSeconds", grace)
        grace = min(grace, template) if isinstance(template, int) else grace
        attempt.is_deleted = True
        if not await cluster.delete(attempt.namespace, attempt.name, attempt.sight.uid, grace):
            attempt.see(gone(attempt.last))

    async def _force(self, attempt: PodAttempt) -> None:
        """Delete a pod that did not end in time, or was not observed yet. The cleanup of leftovers handles failures."""
        try:
            cluster = await self._connected()
            pod = await cluster.find(attempt.namespace or cluster.namespace, attempt.name)
            if pod is not None and (sight := seen(pod)).fence == attempt.assignment.fence:
                await cluster.delete(pod["metadata"]["namespace"], attempt.name, sight.uid, 0)
        except Exception as error:  # noqa: BLE001 - its attempt has already ended
            _log.warning("pod.not_deleted", pod=attempt.name, error=str(error), hint="it is removed later")

    async def _retried(self, attempt: PodAttempt, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the API server answers. A failed call says nothing about the pod."""
        failures = 0
        while True:
            try:
                async with self._calls:
                    return await call()
            except (Unreachable, ApiRefused) as error:  # a missing permission may be temporary, and says nothing either
                attempt.is_deleted = False  # it is unknown whether the server has received the deletion
                failures += 1
                if failures == 1:
                    _log.warning("pod.unreachable", pod=attempt.name, error=str(error), hint="it is tried again")
                await attempt.until_changed(backed_off(failures))

    # -- the cluster ---------------------------------------------------------------------------------------------------

    async def _connected(self) -> Cluster:
        async with self._connecting:
            if self._cluster is None:
                self._cluster = await self._reach()
                self._cluster.namespace = self._namespace or self._cluster.namespace
            return self._cluster

    def _watch(self, cluster: Cluster, namespace: str) -> None:
        if namespace not in self._watches:
            watch = Watch(
                cluster,
                namespace,
                selector(self._node),
                seen=self._saw,
                gone=self._lost_sight,
                known=lambda: [one.name for one in self._by_name.values() if one.is_seen_in(namespace)],
            )
            self._watches[namespace] = self._loop.create_task(watch.run(), name=f"pods in {namespace}")

    def _saw(self, pod: dict[str, Any]) -> None:
        attempt = self._by_name.get(pod["metadata"]["name"])
        if attempt is not None:
            attempt.see(seen(pod))

    def _lost_sight(self, name: str, pod: dict[str, Any] | None) -> None:
        attempt = self._by_name.get(name)
        if attempt is not None:
            if pod is not None:
                attempt.see(seen(pod))
            attempt.see(gone(attempt.last))

    # -- leftovers -----------------------------------------------------------------------------------------------------

    async def left_behind(self) -> Sequence[Leftover]:
        """Return the pods of all nodes that this node may see, ended or not; nothing if this node does not use pods."""
        if self._is_closed or (self._cluster is None and not self._uses_pods):
            return ()
        try:
            cluster = await self._connected()
            try:
                pods, _ = await cluster.pods(None, LEFT_BEHIND)
            except ApiRefused:  # with limited permissions, only the namespaces in which this node runs pods
                pods = []
                for namespace in {cluster.namespace, *self._watches}:
                    pods += (await cluster.pods(namespace, LEFT_BEHIND))[0]
        except (Unreachable, ApiRefused) as error:
            _log.warning("pods.not_listed", error=str(error), hint="it is tried again")
            return ()
        found = [leftover(pod) for pod in pods]
        return [one for one in found if one is not None]

    async def remove(self, leftovers: Sequence[Leftover]) -> None:
        """Remove these pods. The ends of their attempts are durable."""
        cluster = await self._connected()
        grace = max(1, int(self._kill_grace / 2))
        for one in leftovers:
            namespace, name, uid = one.handle
            try:
                await cluster.delete(namespace, name, uid, grace)
            except (Unreachable, ApiRefused) as error:
                _log.warning("pod.not_deleted", pod=name, error=str(error), hint="it is tried again")
