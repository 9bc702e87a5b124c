"""An executor of pods against an API server that does what it is told: every answer, and none (K2, K3, K4)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from itinerary.executors.pods.executor import PodExecutor
from itinerary.executors.pods.policy import PodPolicy
from itinerary.executors.pods.status import DELETED
from itinerary.executors.registry import Registry
from itinerary.model.attempts import (
    Assignment,
    AttemptKey,
    Ended,
    Failed,
    Outcome,
    PodMoved,
    Report,
    Stopped,
    Succeeded,
)
from itinerary.model.rows import Ref
from itinerary.model.states import OccurrenceState
from tests.contracts.executors.stage import PATIENCE, facts, until
from tests.unit.executors.pods.api_server import ApiServer, refused, serving

CREATING, RUNNING = OccurrenceState.CONTAINER_CREATING, OccurrenceState.RUNNING
TERMINATING = OccurrenceState.TERMINATING
RUNS = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}],
}


def ended(code: int, **more: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": "2026-11-16T12:00:00Z", **more}}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": "main", "state": state}]}


class Pods:
    """An executor that is open, and what it reported."""

    def __init__(self, server: ApiServer, node: str, **options: Any) -> None:
        self.server = server
        self.executor = PodExecutor(Registry(["app"]), node=node, **options)
        self.reports: list[Report] = []

    def reported(self, reports: Sequence[Report]) -> None:
        self.reports += reports

    def begin(self, *, fence: int = 1, has_begun: bool = False, attempt: int = 1, **pod: Any) -> str:
        """Begin an attempt; the name of its pod."""
        run = {"pod": {"image": "local/work:1", **pod}}
        told = facts(attempt=attempt)
        key = AttemptKey(Ref(1), 0, attempt)
        self.executor.begin([Assignment(key, "auto", run, told, fence=fence, has_begun=has_begun)])
        return str(told.attempt_id)

    def states(self) -> list[OccurrenceState]:
        return [report.state for report in self.reports if isinstance(report, PodMoved)]

    async def shows(self, *states: OccurrenceState) -> None:
        await until(lambda: self.states() == list(states))

    async def outcome(self) -> Outcome:
        await until(lambda: any(isinstance(report, Ended) for report in self.reports))
        (found,) = [report.outcome for report in self.reports if isinstance(report, Ended)]
        return found


Story = Callable[[ApiServer, Callable[..., Awaitable[Pods]]], Awaitable[None]]


def played(story: Story) -> Callable[[Path, pytest.MonkeyPatch], None]:
    """A story with a server, and executors that reach it."""

    def test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

        async def whole() -> None:
            opened: list[Pods] = []

            async def node(name: str = "a", **options: Any) -> Pods:
                opened.append(Pods(server, name, **options))
                await opened[-1].executor.open(opened[-1].reported)
                return opened[-1]

            async with asyncio.timeout(PATIENCE), serving(tmp_path) as server:
                try:
                    await story(server, node)
                finally:
                    for pods in opened:
                        await pods.executor.close()

        asyncio.run(whole())

    functools.update_wrapper(test, story)
    del test.__dict__["__wrapped__"]
    test.__annotations__ = {"tmp_path": Path, "monkeypatch": pytest.MonkeyPatch, "return": None}
    return test


@pytest.mark.spec("K2", "states")
@played
async def test_a_pod_is_followed_from_its_creation_to_its_log(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    await server.change(name, RUNS)
    await pods.shows(CREATING, RUNNING)
    server.logs[name] = b"done\n"
    await server.change(name, ended(0))
    assert await pods.outcome() == Succeeded(output="done\n")
    assert server.pods[name]["metadata"]["namespace"] == "home", "that of the credentials"
    assert server.deleted == [], "finished pods stay, to be looked at"


@pytest.mark.spec("K2", "created once")
@played
async def test_a_pod_whose_creation_was_not_answered_is_found_and_not_made_twice(server: ApiServer, node: Any) -> None:
    server.loses_answers_to.append("POST")
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    await server.change(name, ended(3))
    assert await pods.outcome() == Failed("exit code 3")
    assert server.created == [name]


@pytest.mark.spec("K2", "one watch")
@played
async def test_there_is_one_watch_for_all_pods_and_it_goes_on_where_it_broke(server: ApiServer, node: Any) -> None:
    pods = await node()
    names = [pods.begin(attempt=number) for number in range(1, 6)]
    await until(lambda: len(pods.states()) == 5 and server.watches == 1)
    await server.break_watches()
    await until(lambda: server.watches == 2)
    for name in names:
        await server.change(name, ended(0))
    await until(lambda: sum(isinstance(report, Ended) for report in pods.reports) == 5)
    assert (server.watches, server.lists) == (2, 1)


@pytest.mark.spec("K2", "410")
@played
async def test_a_watch_whose_version_is_forgotten_begins_anew_with_a_list(server: ApiServer, node: Any) -> None:
    pods = await node()
    name, other = pods.begin(), pods.begin(attempt=2)
    await until(lambda: len(pods.states()) == 2 and server.watches == 1)
    server.forget()
    await server.break_watches()
    server.pods[name]["status"] = ended(0)
    server.pods[name]["metadata"]["resourceVersion"] = str(server.version)
    del server.pods[other]
    await until(lambda: sum(isinstance(report, Ended) for report in pods.reports) == 2)
    outcomes = {report.key.number: report.outcome for report in pods.reports if isinstance(report, Ended)}
    assert outcomes == {1: Succeeded(), 2: Failed(DELETED)}


@pytest.mark.spec("K4", "unreachable is not dead")
@played
async def test_an_api_server_that_does_not_answer_says_nothing_about_pods(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    turned_away = []

    def away(request: web.Request) -> web.Response | None:
        turned_away.append(request.path)
        return refused(503, "the API server is starting")

    server.refuses.append(away)
    await server.break_watches()
    await until(lambda: len(turned_away) >= 2)
    server.refuses.clear()
    await server.change(name, ended(0))
    assert await pods.outcome() == Succeeded()


@pytest.mark.spec("K3", "cancel")
@played
async def test_a_pod_that_is_stopped_is_deleted_by_its_uid_and_read_to_its_end(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    await server.change(name, RUNS)
    await pods.shows(CREATING, RUNNING)
    server.logs[name] = b"bye\n"
    uid = server.pods[name]["metadata"]["uid"]
    pods.executor.stop([AttemptKey(Ref(1), 0, 1)])
    await pods.shows(CREATING, RUNNING, TERMINATING)
    await server.change(name, ended(143))
    assert await pods.outcome() == Stopped(output="bye\n")
    (deletion,) = server.deleted
    assert deletion == {"name": name, "preconditions": {"uid": uid}, "gracePeriodSeconds": 5}


@pytest.mark.spec("K4", "kill")
@played
async def test_a_kill_alone_leaves_the_pod_which_is_another_nodes_by_now(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    pods.executor.kill([AttemptKey(Ref(1), 0, 1)])
    assert await pods.outcome() == Stopped(abandoned=True)
    await pods.executor.close()
    assert name in server.pods
    assert server.deleted == []


@pytest.mark.spec("K3", "a log that ends with its container")
@played
async def test_what_a_machine_says_about_a_container_that_is_gone_is_no_output(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    await server.change(name, RUNS)
    await pods.shows(CREATING, RUNNING)
    complaint = b'rpc error: code = NotFound desc = an error occurred when try to find container "%s": not found'
    server.logs[name] = b"here\nbye\n" + complaint % (b"d7" * 32)
    pods.executor.stop([AttemptKey(Ref(1), 0, 1)])
    await pods.shows(CREATING, RUNNING, TERMINATING)
    await server.change(name, ended(143))
    assert await pods.outcome() == Stopped(output="here\nbye\n")


@pytest.mark.spec("X4", "pods")
@played
async def test_a_kill_after_a_stop_deletes_at_once(server: ApiServer, node: Any) -> None:
    pods = await node()
    pods.begin()
    await pods.shows(CREATING)
    key = AttemptKey(Ref(1), 0, 1)
    pods.executor.stop([key])
    await until(lambda: server.deleted)
    pods.executor.kill([key])
    await until(lambda: not server.pods)
    assert [one["gracePeriodSeconds"] for one in server.deleted] == [5, 0]
    assert await pods.outcome() == Stopped(abandoned=True)


@pytest.mark.spec("K4")
@played
async def test_another_node_adopts_a_pod_with_a_higher_fence_and_the_first_lets_go(
    server: ApiServer, node: Any
) -> None:
    first, second = await node("a"), await node("b")
    name = first.begin(fence=1)
    await first.shows(CREATING)
    await server.change(name, RUNS)
    await first.shows(CREATING, RUNNING)
    second.begin(fence=2, has_begun=True)
    assert await first.outcome() == Stopped(abandoned=True)
    await second.shows(RUNNING)
    labels = server.pods[name]["metadata"]["labels"]
    assert (labels["itinerary/node"], labels["itinerary/fence"]) == ("b", "2")
    await server.change(name, ended(0))
    assert await second.outcome() == Succeeded()
    assert server.created == [name]
    assert server.deleted == []


@pytest.mark.spec("K4", "fence")
@played
async def test_a_node_that_wakes_up_late_does_not_take_a_pod_from_who_adopted_it(server: ApiServer, node: Any) -> None:
    late, present = await node("a"), await node("b")
    name = present.begin(fence=2)
    await present.shows(CREATING)
    late.begin(fence=1)
    assert await late.outcome() == Stopped(abandoned=True)
    assert server.pods[name]["metadata"]["labels"]["itinerary/node"] == "b"
    assert server.created == [name]


@pytest.mark.spec("N2", "pods")
@played
async def test_what_had_begun_and_is_gone_is_not_created_again(server: ApiServer, node: Any) -> None:
    pods = await node()
    pods.begin(has_begun=True)
    assert await pods.outcome() == Failed(f"{DELETED}, while nobody looked")
    assert server.created == []


@pytest.mark.spec("K4", "finished meanwhile")
@played
async def test_a_pod_that_finished_while_no_node_was_there_is_found_with_its_log(server: ApiServer, node: Any) -> None:
    first = await node("a")
    name = first.begin()
    await first.shows(CREATING)
    await first.executor.close()
    await server.change(name, ended(0))
    server.logs[name] = b"long done\n"
    second = await node("b")
    second.begin(fence=2, has_begun=True)
    assert await second.outcome() == Succeeded(output="long done\n")


@pytest.mark.spec("K2", "errors")
@played
async def test_what_is_unschedulable_for_too_long_is_said_and_ended_when_that_is_durable(
    server: ApiServer, node: Any
) -> None:
    pods = await node()
    name = pods.begin(start_timeout="1ms")
    await pods.shows(CREATING)
    await server.change(name, UNSCHEDULABLE)
    await until(lambda: pods.reports[-1] == PodMoved(AttemptKey(Ref(1), 0, 1), TERMINATING, "unschedulable: no room"))
    assert server.deleted == []
    pods.executor.stop([AttemptKey(Ref(1), 0, 1)])
    await until(lambda: server.deleted)
    await server.remove(name)
    assert await pods.outcome() == Stopped()


@pytest.mark.spec("K2", "errors")
@played
async def test_what_finds_room_in_time_runs(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin(start_timeout="1h")
    await pods.shows(CREATING)
    await server.change(name, UNSCHEDULABLE)
    await server.change(name, RUNS)
    await pods.shows(CREATING, RUNNING)


@pytest.mark.spec("K2", "errors")
@played
async def test_a_pod_that_the_server_refuses_is_said_in_its_words(server: ApiServer, node: Any) -> None:
    server.refuses.append(lambda request: refused(403, "exceeded quota") if request.method == "POST" else None)
    pods = await node()
    pods.begin()
    assert await pods.outcome() == Failed("its pod cannot be created: Kubernetes refused it, 403: exceeded quota")


@pytest.mark.spec("K2", "name")
@played
async def test_somebody_elses_pod_of_that_name_is_left_alone(server: ApiServer, node: Any) -> None:
    pods = await node()
    name = pods.begin()
    await pods.shows(CREATING)
    await pods.executor.close()
    server.pods[name]["metadata"]["labels"] = {"app": "other"}
    again = await node("b")
    again.begin(fence=2)
    assert await again.outcome() == Failed(f"a pod {name} is there already, and is not this attempt's; remove it")
    assert server.deleted == []


@pytest.mark.spec("O5", "pods")
@played
async def test_what_is_stopped_before_it_is_created_is_not_created(server: ApiServer, node: Any) -> None:
    server.refuses.append(lambda request: refused(503, "later") if request.method == "POST" else None)
    pods = await node()
    pods.begin()
    pods.executor.stop([AttemptKey(Ref(1), 0, 1)])
    assert await pods.outcome() == Stopped()
    assert server.created == []


@pytest.mark.spec("K4", "unreachable is not dead")
@played
async def test_a_node_that_may_not_look_at_a_pod_any_more_does_not_take_it_for_dead(
    server: ApiServer, node: Any
) -> None:
    first = await node("a")
    name = first.begin()
    await first.shows(CREATING)
    await first.executor.close()
    turned_away = []

    def forbids(request: web.Request) -> web.Response | None:
        turned_away.append(request.path)
        return refused(403, "pods is forbidden")

    server.refuses.append(forbids)
    second = await node("b")
    second.begin(fence=2, has_begun=True)
    await until(lambda: len(turned_away) >= 3)
    server.refuses.clear()
    await server.change(name, ended(0))
    assert await second.outcome() == Succeeded()


@pytest.mark.spec("K3", "removal")
@played
async def test_pods_that_were_left_behind_are_found_whoever_made_them(server: ApiServer, node: Any) -> None:
    first, second = await node("a"), await node("b")
    name, other = first.begin(), first.begin(attempt=2)
    await until(lambda: len(first.states()) == 2)
    await server.change(name, ended(0))
    await first.executor.close()
    assert await second.executor.left_behind() == (), "a node without pods asks nobody"
    second.begin(attempt=3)
    await second.shows(CREATING)
    found = {one.handle[1]: one for one in await second.executor.left_behind()}
    assert found.keys() == {name, other, str(facts(attempt=3).attempt_id)}
    assert [found[one].is_over for one in (name, other)] == [True, False]
    assert found[name].over_for > 0
    await second.executor.remove([found[name]])
    assert [one["name"] for one in server.deleted] == [name]


@pytest.mark.spec("K5", "least rights")
@played
async def test_a_node_with_rights_in_one_namespace_only_creates_and_finds_its_pods_there(
    server: ApiServer, node: Any
) -> None:
    inside = "/api/v1/namespaces/tasks/"
    server.refuses.append(
        lambda request: None if request.path.startswith(inside) else refused(403, f"{request.path} is forbidden")
    )
    first = await node("a", namespace="tasks")
    name = first.begin()
    await first.shows(CREATING)
    assert server.pods[name]["metadata"]["namespace"] == "tasks"
    await first.executor.close()
    second = await node("b", namespace="tasks", uses_pods=True)
    assert [one.handle[:2] for one in await second.executor.left_behind()] == [("tasks", name)]


def test_without_credentials_it_is_said_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    reports: list[Report] = []

    async def story() -> None:
        executor = PodExecutor(Registry())
        await executor.open(reports.extend)
        executor.begin([Assignment(AttemptKey(Ref(1), 0, 1), "auto", {"pod": {"image": "a"}}, facts())])
        await until(lambda: reports)
        await executor.close()

    asyncio.run(story())
    assert isinstance(reports[0], Ended)
    assert isinstance(reports[0].outcome, Failed)
    assert reports[0].outcome.error.startswith("there are no credentials for Kubernetes: set KUBECONFIG")


@pytest.mark.spec("Q3", "pods")
@played
async def test_a_pod_that_the_node_does_not_allow_is_never_created(server: ApiServer, node: Any) -> None:
    strict = await node()
    strict.begin(template={"spec": {"hostNetwork": True}})
    outcome = await strict.outcome()
    assert isinstance(outcome, Failed)
    assert "asks for hostNetwork" in outcome.error
    elsewhere = await node("b", policy=PodPolicy(namespaces=("jobs",)))
    elsewhere.begin()
    outcome = await elsewhere.outcome()
    assert isinstance(outcome, Failed)
    assert "pod.namespace: 'home' is not allowed" in outcome.error, "that of the credentials counts"
    assert server.created == []
    assert server.lists == 0 or server.pods == {}


@pytest.mark.spec("Q3", "pods")
@played
async def test_a_pod_that_runs_already_is_followed_whatever_the_policy_is_by_now(server: ApiServer, node: Any) -> None:
    lenient = await node("a", policy=PodPolicy(rights=("hostNetwork",)))
    template = {"spec": {"hostNetwork": True}}
    name = lenient.begin(template=template)
    await lenient.shows(CREATING)
    strict = await node("b")
    strict.begin(fence=2, has_begun=True, template=template)
    await strict.shows(CREATING)
    await server.change(name, ended(0))
    assert isinstance(await strict.outcome(), Succeeded)
    assert server.created == [name]
