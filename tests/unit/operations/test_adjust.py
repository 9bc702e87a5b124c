"""One run that has not started is given other values; and what a node's loop says of one run and one job (L6, O2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from itinerary import Itinerary, every
from itinerary.api import RunReference
from itinerary.errors import ConfigError, NodeError
from itinerary.model.queries import ByRefQuery, Detail, DetailsQuery
from itinerary.model.rows import OccurrenceRow
from itinerary.model.run_request import Adjusted, details_with, read_adjusted, read_asked
from itinerary.operations.adjust import options_of
from itinerary.testing import TestNode


async def work() -> None: ...


@pytest.fixture
def run() -> Iterator[TestNode]:
    """A job whose runs wait for each other, and take twenty minutes."""
    app = Itinerary(store="memory:", name="here")
    app.job("etl", every("1h"), overlap="queue", task_timeout="30m").task(work)
    with closing(TestNode(app, start="2026-01-01T00:00")) as node:
        node.fake("etl/work", takes="20m")
        yield node


def row_of(run: TestNode, one: RunReference) -> OccurrenceRow:
    return run._environment.engine.now_answer(ByRefQuery((one.ref,)))[one.ref]


def detail_of(run: TestNode, one: RunReference) -> Detail:
    return run._environment.engine.now_answer(DetailsQuery((one.ref,)))[0]


@pytest.mark.spec("L6", "update")
@pytest.mark.spec("O2", "configuration")
def test_a_run_that_is_queued_starts_with_the_values_that_it_was_given(run: TestNode) -> None:
    first, second = run.trigger("etl"), run.trigger("etl")
    assert row_of(run, second).status == "queued"
    adjusted = run.call(run.node.adjust(second, execution_timeout="5m", reason="month end"))
    assert adjusted.values == {"execution_timeout": "5m"}
    again = run.call(run.node.adjust(second.id, retry={"max_retries": 2}))
    assert again.values == {"execution_timeout": "5m", "retry.max_retries": 2}, "what is not named stays as it is"
    run.advance(hours=1)
    assert row_of(run, first).status == "completed"
    assert row_of(run, second).status == "failed"
    assert '"execution_timeout":300000000' in (detail_of(run, second).config or "")


@pytest.mark.spec("O2", "configuration")
def test_a_scheduled_run_is_adjusted_by_its_run_id_in_the_seconds_before_its_instant(run: TestNode) -> None:
    run.advance(minutes=59, seconds=55)
    (claimed,) = run.call(run.node.active())
    name = f"etl:{claimed.key.instant // 1_000_000}"
    run.call(run.node.adjust(name, execution_timeout="5m"))
    run.advance(minutes=10)
    assert run.history("etl").statuses == ["failed"]
    found = run._environment.engine.now_answer(ByRefQuery((claimed.ref,)))[claimed.ref]
    assert read_asked(found.details) is None, "nobody asked for it: it was due by its schedule"
    (adjusted,) = read_adjusted(found.details)
    assert (adjusted.values, adjusted.reason) == ({"execution_timeout": "5m"}, None)
    assert adjusted.by
    assert adjusted.at < claimed.key.instant


@pytest.mark.spec("Q2", "who")
def test_who_adjusted_a_run_when_and_why_is_kept_beside_who_asked_for_it(run: TestNode) -> None:
    run.trigger("etl")
    second = run.trigger("etl", reason="by hand")
    for priority in range(25):
        run.call(run.node.adjust(second, priority=priority, reason=f"change {priority}"))
    details = row_of(run, second).details
    kept = read_adjusted(details)
    assert [one.reason for one in kept] == [f"change {priority}" for priority in range(5, 25)], "the last ones"
    asked = read_asked(details)
    assert asked is not None
    assert (asked.reason, asked.adjusted) == ("by hand", ())


@pytest.mark.spec("L6", "update after prerun")
def test_what_has_started_or_ended_is_not_adjusted_and_the_error_says_what_to_do(run: TestNode) -> None:
    first = run.trigger("etl")
    with pytest.raises(NodeError, match=r"has started already, at 2026-01-01T00:00:00Z, .*cancel it and replay it"):
        run.call(run.node.adjust(first, priority=1))
    run.advance(minutes=30)
    with pytest.raises(NodeError, match="has ended already, completed; replay it"):
        run.call(run.node.adjust(first, priority=1))
    assert row_of(run, first).adjustments == 0


@pytest.mark.spec("L6", "update")
def test_values_that_are_not_allowed_change_nothing(run: TestNode) -> None:
    run.trigger("etl")
    second = run.trigger("etl")
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "nothing is to be adjusted; give one of mode, failure"),
        ({"max_active": 2}, "max_active: cannot be set on an occurrence"),
        ({"prioritty": 2}, "did you mean 'priority'"),
        ({"priority": 5_000}, "priority: "),
    )
    for options, why in wrong:
        with pytest.raises(ConfigError, match=why):
            run.call(run.node.adjust(second, **options))
    assert row_of(run, second).adjustments == 0


@pytest.mark.spec("L6", "update")
def test_the_same_values_set_twice_are_one_adjustment(run: TestNode) -> None:
    run.trigger("etl")
    second = run.trigger("etl")
    for _ in range(3):
        run.call(run.node.adjust(second, priority=7))
    assert row_of(run, second).adjustments == 1
    assert len(read_adjusted(row_of(run, second).details)) == 1


@pytest.mark.spec("L6", "get one occurrence")
@pytest.mark.spec("L6", "get a job's status")
def test_the_loop_says_what_it_knows_of_one_run_and_of_one_job(run: TestNode) -> None:
    first = run.trigger("etl")
    run.advance(minutes=1)
    found = run.call(run.node.occurrence(first))
    assert found is not None
    assert (found.ref, found.job, found.state, found.misses) == (first.ref, "etl", "running", 0)
    assert found.started_at is not None
    assert found.last_heartbeat_at is not None
    assert found.last_heartbeat_at > found.started_at
    job = run.call(run.node.job("etl"))
    assert job is not None
    assert (job.job, job.version, [one.ref for one in job.active]) == ("etl", 1, [first.ref])
    run.advance(minutes=40)
    assert run.call(run.node.occurrence(first)) is None
    with pytest.raises(NodeError, match="there is no job 'nobody'"):
        run.call(run.node.job("nobody"))


@pytest.mark.spec("U3", "adjust")
def test_what_is_typed_is_read_by_key() -> None:
    typed = [
        "priority=9",
        "task_timeout = 5m",
        "retry.max_retries=3",
        'retry.never_retry=["ValueError"]',
        "mode=parallel",
    ]
    assert options_of(typed) == {
        "priority": 9,
        "task_timeout": "5m",
        "retry": {"max_retries": 3, "never_retry": ["ValueError"]},
        "mode": "parallel",
    }
    for pair, why in (
        ("priority", "'priority' sets nothing; write key=value"),
        ("=9", "sets nothing"),
        ("priority=", "sets nothing"),
        ("prioritty=9", "'prioritty' cannot be adjusted; did you mean 'priority'"),
        ("limits=api", "'limits' cannot be adjusted; "),
    ):
        with pytest.raises(ConfigError, match=why):
            options_of([pair])


def test_the_details_of_a_scheduled_run_hold_its_adjustments_alone() -> None:
    details = details_with(None, Adjusted("anna", 5, {"priority": 9}, "month end"))
    assert read_asked(details) is None
    assert read_adjusted(details) == (Adjusted("anna", 5, {"priority": 9}, "month end"),)
    assert read_adjusted(None) == ()
