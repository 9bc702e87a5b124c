"""Document 000, the central scheduler: settings, states, messages, heartbeats, flushes (L4 to L10, O1 to O7)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest

from itinerary import Itinerary, cron, every
from itinerary.core.loop import messages as m
from itinerary.core.loop.commands import Claim, Write
from itinerary.errors import ConfigError, IllegalTransition, NodeError
from itinerary.executors.coroutines import CoroutineExecutor
from itinerary.model.attempts import AttemptKey, Ended, Failed, Succeeded
from itinerary.model.definition import Requirement, Unmet
from itinerary.model.ids import run_id
from itinerary.model.queries import StatisticsQuery
from itinerary.model.rows import Ref
from itinerary.model.settings import Settings, read_settings
from itinerary.model.states import FINAL, TRANSITIONS, OccurrenceState, advance
from itinerary.runtime.inbox import Inbox, InboxStatistics
from itinerary.schedules.durations import SECOND
from tests.documents.clock import Clock
from tests.unit.core.bench import START, done
from tests.unit.core.bench import World as Loop
from tests.unit.core.scripted import fails, hangs, works
from tests.unit.runtime.pods import ClusterExecutor, VirtualCluster, register_pods
from tests.unit.runtime.test_syncer import changes, row, syncing
from tests.unit.runtime.world import World, played

S = OccurrenceState

# -- configuration -----------------------------------------------------------------------------------------------------

DEFAULTS = {
    "pre_schedule_interval": 10 * SECOND,
    "index_rebuild_interval": 60 * SECOND,
    "lookahead_window": 600 * SECOND,
    "grace_period": 30 * SECOND,
    "loop_interval": 1 * SECOND,
    "inbox_buffer_size": 10_000,
    "inbox_send_timeout": 5 * SECOND,
    "orchestrator_heartbeat_interval": 10 * SECOND,
    "max_missed_orchestrator_heartbeats": 3,
    "max_buffered_updates": 10_000,
    "update_flush_threshold": 100,
    "update_flush_interval": 1 * SECOND,
    "stats_flush_threshold": 30,
    "stats_flush_interval": 30 * SECOND,
}
"""The numbers of both configurations of the document, scheduler and syncer. Two more of the syncer's are channel
sizes. Itinerary has no channel between its buffers, and so no such setting."""


@pytest.mark.spec("L4")
def test_the_defaults_are_those_of_the_document() -> None:
    """000, configuration: the defaults of the scheduler and of the syncer."""
    settings = Settings()
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.spec("L4", "checked")
def test_one_rule_stops_the_start_and_two_are_warned_about() -> None:
    """000, validation rules: rebuild before the look-ahead ends (required), and two recommendations."""
    with pytest.raises(
        ConfigError, match=r"index_rebuild_interval \(10m\) must be shorter than lookahead_window \(10m\)"
    ):
        read_settings({"index_rebuild_interval": "10m"})
    assert Settings().warnings() == []
    (grace,) = read_settings({"grace_period": "1s"}).warnings()
    (ahead,) = read_settings({"pre_schedule_interval": "500ms"}).warnings()
    assert grace.startswith("grace_period (1s) should be longer than loop_interval (1s)")
    assert ahead.startswith("pre_schedule_interval (500ms) should not be shorter than loop_interval (1s)")


# -- states ------------------------------------------------------------------------------------------------------------

NOT_FINAL = [
    "prerun",
    "pending",
    "condition_pending",
    "condition_running",
    "action_pending",
    "action_running",
    "container_creating",
    "running",
    "terminating",
    "retrying",
]
FINAL_OF_THE_DOCUMENT = ["completed", "failed", "cancelled", "orphaned"]
NORMAL_FLOW = [*NOT_FINAL[:-1], "completed"]
"""The ten steps of the document, in its order."""


@pytest.mark.spec("O1")
def test_the_fourteen_states_have_the_names_of_the_document_and_are_final_or_not() -> None:
    """000, orchestrator states and their categories: ten that are watched by heartbeats, and four that are final.

    Our rule (O1) adds `queued`, and four more final states.
    """
    assert [state for state in NOT_FINAL if S(state) in FINAL] == []
    assert [state for state in FINAL_OF_THE_DOCUMENT if S(state) not in FINAL] == []
    ours = {state.value for state in S} - {*NOT_FINAL, *FINAL_OF_THE_DOCUMENT}
    assert ours == {"queued", "completed_with_errors", "failed_stale", "skipped", "missed"}


@pytest.mark.spec("O1")
@pytest.mark.parametrize("state", NOT_FINAL)
def test_from_every_state_that_is_not_final_a_run_can_fail_be_cancelled_and_be_orphaned(state: str) -> None:
    """000, failure, cancellation and orphaning flow: three ways out, from everywhere."""
    assert {S.FAILED, S.CANCELLED, S.ORPHANED} <= TRANSITIONS[S(state)]


@pytest.mark.spec("O1")
@pytest.mark.spec("O7")
def test_a_retry_goes_from_running_over_retrying_to_pending_and_never_from_failed() -> None:
    """000, failure flow: the document goes from failed to retrying, and calls failed a final state.

    Our rule (O7): a final state is never left. A run retries from `running`, and `failed` is written when no retry is
    left.
    """
    assert advance(advance(S.RUNNING, S.RETRYING), S.PENDING) is S.PENDING
    with pytest.raises(IllegalTransition, match="failed is final"):
        advance(S.FAILED, S.RETRYING)
    loop = Loop()
    loop.job("etl", retry={"max_retries": 1, "retry_interval": "5s"})
    loop.does("main", fails(), works())
    loop.run_to(30)
    assert loop.trail() == "prerun pending running retrying pending running completed"


@pytest.mark.spec("O1")
@pytest.mark.spec("O3", "act")
@pytest.mark.spec("K2", "states")
def test_one_run_passes_through_all_ten_states_of_the_normal_flow(tmp_path: Path) -> None:
    """000, normal flow, steps 1 to 10: a file is missing, the action fetches it, a pod is made, runs, and ends.

    Our rule (O3): after the action the requirement is checked again, so two of the states come twice.
    """
    wanted = tmp_path / "input.csv"

    async def fetch() -> None:
        wanted.touch()

    async def story(world: World) -> None:
        action = world.registry.register(fetch, "world:fetch")
        requirement = Requirement(file=str(wanted), on_unmet=Unmet.ACT, action=action, every="5s", deadline="1m")
        await register_pods(world, requires=(requirement,))
        cluster = VirtualCluster(creating=1.0, takes=10.0)
        executor = ClusterExecutor(cluster, CoroutineExecutor(world.registry, loop=world.loop))
        async with world.running(world.node("a", executor)):
            await world.sleep_until(20.0)
            (name,) = executor.mine
            executor.moved(name, S.TERMINATING)
            await world.sleep_until(60.0)
        (occurrence,) = await world.rows("job")
        states = [line.after.value for line in (await world.detail(occurrence)).transitions]
        assert list(dict.fromkeys(states)) == NORMAL_FLOW
        assert states.count("condition_running") == 2

    played(story)


# -- messages ----------------------------------------------------------------------------------------------------------

MESSAGES = {
    "orchestrator_state_change": m.AttemptsReported,
    "orchestrator_complete": m.AttemptsReported,
    "orchestrator_failed": m.AttemptsReported,
    "orchestrator_heartbeat": m.Heartbeats,
    "cancel_run": m.CancelRequested,
    "update_run_config": m.ConfigurationUpdated,
    "get_orchestrator_state": m.OccurrenceAsked,
    "get_all_active_runs": m.ActiveAsked,
    "get_stats": m.StatisticsAsked,
    "shutdown": m.ShutdownRequested,
}
"""The ten messages of the document, and ours. Reports come in bulk, so one message of ours carries three kinds."""


def running(**options: Any) -> Loop:
    """A loop one second after the start of a run that does not end by itself."""
    loop = Loop()
    loop.job("etl", **options)
    loop.does("main", hangs())
    loop.run_to(1)
    return loop


@pytest.mark.spec("L6")
def test_every_message_of_the_document_has_its_place_in_the_inbox() -> None:
    """000, inbox messages: the ten kinds. The next tests send each of them to the real loop."""
    assert set(MESSAGES.values()) <= set(get_args(m.Message))
    asks = (m.OccurrenceAsked, m.ActiveAsked, m.StatisticsAsked)
    assert all("reply" in kind.__struct_fields__ for kind in asks), "a question carries what its answer is for"


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    ("outcome", "state"), [(Succeeded(), "completed"), (Failed("boom", ()), "failed")], ids=["complete", "failed"]
)
def test_a_report_of_the_end_ends_the_run(outcome: Any, state: str) -> None:
    """000, complete and failed: status, end and error of the run are written."""
    loop = running()
    loop.report(Ended(AttemptKey(loop.ref, 0, 1), outcome))
    loop.run_to(3)
    (ended,) = loop.rows
    assert (ended.status, ended.ended_at) == (state, START + 1 * SECOND)
    assert loop.detail().attempts[0].error == ("boom" if state == "failed" else None)


@pytest.mark.spec("L6")
def test_a_message_about_an_unknown_run_changes_nothing() -> None:
    """000, message handlers: what is not in the map is passed over; a cancel and an update are logged, and answered."""
    loop = running()
    before = loop.story()
    loop.send(m.Heartbeats([Ref(99)]))
    loop.report(Ended(AttemptKey(Ref(99), 0, 1), Succeeded()))
    for request in (m.CancelRequested(Ref(99), "anna", "asked"), m.ConfigurationUpdated(Ref(99), "{}", 1, "asked")):
        answer = loop.ask(request)
        assert (answer.done, answer.why) == (False, "it is not known here")
    assert len(loop.logged("request.refused")) == 2
    assert loop.story() == before


@pytest.mark.spec("O2", "cancellation")
def test_a_cancel_ends_a_run_before_its_time_and_while_it_runs(app: Itinerary, itinerary_clock: Clock) -> None:
    """000, cancel: a run in prerun never starts, and a task that runs receives the cancellation."""
    ends: list[str] = []

    @app.job(cron("0 * * * *"))
    async def hourly() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ends.append("cancelled")

    run = itinerary_clock(app)
    run.advance_to("2026-01-01T00:59:55")
    assert run.call(run.node.cancel("hourly:1767229200"))
    run.advance_to("2026-01-01T02:05")
    assert run.call(run.node.cancel("hourly:1767232800"))
    run.advance(minutes=1)
    assert run.history("hourly").statuses == ["cancelled", "cancelled"]
    assert ends == ["cancelled"], "the first has never started"


@pytest.mark.spec("O2", "configuration")
def test_a_configuration_is_updated_in_prerun_and_refused_later(app: Itinerary, itinerary_clock: Clock) -> None:
    """000, update the configuration of a run: only in prerun. Afterwards nothing changes, and the answer says why."""

    @app.job(cron("0 * * * *"))
    async def hourly() -> None:
        await asyncio.sleep(600)

    run = itinerary_clock(app)
    run.advance_to("2026-01-01T00:59:55")
    run.call(run.node.adjust("hourly:1767229200", execution_timeout="1m"))
    run.advance_to("2026-01-01T01:00:30")
    with pytest.raises(NodeError, match="has started already"):
        run.call(run.node.adjust("hourly:1767229200", execution_timeout="2m"))
    run.advance(minutes=5)
    (one,) = run.history("hourly")
    assert (one.status, one.report.duration.total_seconds() if one.report.duration else None) == ("failed", 60)


@pytest.mark.spec("L6", "questions")
def test_the_loop_answers_the_three_questions(app: Itinerary, itinerary_clock: Clock) -> None:
    """000, state queries: one run (found or not), all active runs, and statistics of loop, inbox and syncer."""

    @app.job(cron("0 * * * *"))
    async def hourly() -> None:
        await asyncio.sleep(600)

    run = itinerary_clock(app)
    run.advance_to("2026-01-01T01:00:30")
    found = run.call(run.node.occurrence("hourly:1767229200"))
    assert found is not None
    assert (found.state, found.misses) == ("running", 0)
    assert found.started_at == int(datetime(2026, 1, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    assert [one.key for one in run.call(run.node.active())] == [found.key]
    statistics = run.call(run.node.statistics())
    assert (statistics.loop.active, statistics.loop.index_size) == (1, 1), "the instant is within the grace period"
    assert statistics.sent >= statistics.received > 0
    assert (statistics.timeouts, statistics.unwritten_updates) == (0, 0)
    run.advance(hours=1, minutes=15)
    assert run.call(run.node.occurrence("hourly:1767229200")) is None


# -- the loop ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("L9")
def test_the_run_id_is_the_job_and_the_unix_time() -> None:
    """000, run ids: the example of the document. The same job at the same time has the same id."""
    assert run_id("job123", 1_704_067_200 * SECOND) == "job123:1704067200"


@pytest.mark.spec("L3")
@pytest.mark.spec("L9")
def test_a_run_is_made_ten_seconds_before_its_instant_and_once_however_often_the_index_is_built() -> None:
    """000, step 1: runs of the next ten seconds get an orchestrator. A run that is in the map already gets none.

    The window is half open, `[now, now + 10 s)`. With one iteration a second, the run of 20 is made at 11.
    """
    loop = Loop()
    loop.job("etl", schedule=every("20s"))
    made: dict[int, int] = {}
    for second in range(41):
        loop.run_to(second)
        loop.rebuild()
        for occurrence in loop.rows:
            made.setdefault((occurrence.instant - START) // SECOND, second)
    assert made == {0: 0, 20: 11, 40: 31}
    claimed = [one.key for command in loop.commands if isinstance(command, Claim) for one in command.wanted]
    assert len(claimed) == len(set(claimed))


@pytest.mark.spec("O4")
def test_after_three_missed_heartbeats_of_ten_seconds_a_run_is_orphaned() -> None:
    """000, step 3: an interval of 10 s, and 3 misses.

    The document counts a miss in each iteration, so a run would be orphaned after 13 s. Our rule (O4): one miss for
    each whole interval. A heartbeat sets the count to zero.
    """
    loop = running(task_timeout="1h")
    loop.is_silent = True
    seen = {}
    for second in (9, 11, 21, 29):
        loop.run_to(second)
        seen[second] = loop.ask(m.OccurrenceAsked(loop.ref, "asked")).misses
    assert seen == {9: 0, 11: 1, 21: 2, 29: 2}
    loop.is_silent = False
    loop.send(m.Heartbeats([loop.ref]))
    loop.run_to(29.5)
    assert loop.ask(m.OccurrenceAsked(loop.ref, "asked")).misses == 0
    loop.is_silent = True
    loop.run_to(70)
    assert loop.statuses == ["orphaned"]
    assert "no heartbeat since" in (loop.rows[0].reason or "")


@pytest.mark.spec("O6")
def test_a_final_run_leaves_memory_after_the_grace_period_and_its_row_stays() -> None:
    """000, step 4: what is final is removed from the map 30 seconds after its instant."""
    loop = Loop()
    loop.job("etl")
    loop.run_to(29)
    assert loop.ask(m.OccurrenceAsked(loop.ref, "asked")).state == "completed"
    loop.run_to(32)
    assert loop.ask(m.OccurrenceAsked(loop.ref, "asked")) is None
    assert loop.statuses == ["completed"]


@pytest.mark.spec("L10")
def test_each_second_has_a_row_of_statistics() -> None:
    """000, step 5: time, duration, active runs, index size, inbox depth and messages, for each second.

    Our rule (L10): one row for each loop interval, however many iterations it had; the row counts them.
    """
    loop = running()
    loop.run_to(5)
    kept = [one for one in done(loop.store.read(StatisticsQuery(loop.node))) if one.at > START]
    assert [(one.at - START) // SECOND for one in kept] == [1, 2, 3, 4, 5]
    assert {(one.active, one.index_size, one.inbox_depth) for one in kept} == {(1, 1, 0)}
    assert all(one.iterations >= 1 and one.total_us >= one.longest_us > 0 for one in kept)
    assert kept[0].messages > 0, "the answer to the start, at least"


# -- the inbox and the syncer ------------------------------------------------------------------------------------------


@pytest.mark.spec("L5")
def test_a_full_inbox_makes_a_sender_wait_five_seconds_and_then_fails_visibly() -> None:
    """000, the inbox: 10,000 messages, a timeout of 5 s, a warning with type and depth, and five numbers."""

    async def story(world: World) -> None:
        settings = Settings()
        inbox = Inbox(settings.inbox_buffer_size, settings.inbox_send_timeout, world.log)
        for number in range(10_000):
            assert await inbox.send(m.JobChanged(number))
        assert not await inbox.send(m.Heartbeats([Ref(1)]))
        assert world.loop.time() == 5.0
        (line,) = world.log.said("inbox.full")
        assert (line["message"], line["depth"], line["waited_seconds"]) == ("Heartbeats", 10_000, 5.0)
        assert inbox.statistics == InboxStatistics(sent=10_000, received=0, timeouts=1, depth=10_000, deepest=10_000)
        assert len(await inbox.receive(0)) == 10_000, "all of them in one iteration"
        assert (inbox.statistics.received, inbox.statistics.depth) == (10_000, 0)

    played(story)


@pytest.mark.spec("L7")
def test_updates_are_flushed_at_a_hundred_or_after_a_second() -> None:
    """000, the syncer, updates: whichever comes first, the size or the time."""

    async def story(world: World) -> None:
        async with syncing(world) as scene:
            scene.syncer.write(changes(*range(1, 101)), is_urgent=False)
            await asyncio.sleep(0.5)
            scene.syncer.write(changes(101, 102), is_urgent=False)
            await asyncio.sleep(2.0)
            assert [(at, len(batch)) for at, batch in scene.store.batches] == [(0.0, 100), (1.5, 2)]

    played(story)


@pytest.mark.spec("L7")
def test_statistics_are_flushed_at_thirty_or_after_thirty_seconds() -> None:
    """000, the syncer, statistics: the same two ways."""

    async def story(world: World) -> None:
        async with syncing(world) as scene:
            for at in range(30):
                scene.syncer.keep(row(at))
            await asyncio.sleep(10.0)
            scene.syncer.keep(row(40))
            await asyncio.sleep(60.0)
            assert scene.store.statistics == [(0.0, 30), (40.0, 1)]

    played(story)


@pytest.mark.spec("L8")
def test_too_many_unwritten_updates_stop_the_node_with_an_error() -> None:
    """000, resolved question 3: a buffer over its maximum stops the scheduler. Here the maximum is 2.

    Our rule (L8): the node first takes no new work, and stops after 60 s of that. Failed writes are retried (L7).
    """
    loop = Loop(max_buffered_updates=2)
    for name in "abc":
        loop.job(name)
    loop.run_to(0.5)
    loop.keep(Write)
    loop.run_to(2)
    assert loop.logged("node.takes_no_work")[0]["unwritten"] == 3
    loop.run_to(62)
    assert loop.exited is not None
    assert "(max_buffered_updates)" in (loop.exited.error or "")


@pytest.mark.spec("R9")
def test_a_shutdown_ends_active_runs_and_writes_everything_before_it_is_over(
    app: Itinerary, itinerary_clock: Clock
) -> None:
    """000, shutdown: active runs are cancelled, what is buffered is flushed, and then the components end."""

    @app.job(cron("0 * * * *"), on_shutdown="cancel")
    async def hourly() -> None:
        await asyncio.sleep(600)

    run = itinerary_clock(app)
    run.advance_to("2026-01-01T01:00:01")
    run.shut_down()
    (one,) = run.history("hourly")
    assert one.status == "cancelled"
    assert one.report.ended_at is not None, "the row has its end"
    assert not run.is_running
