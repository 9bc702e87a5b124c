"""The cascade: leaf by leaf, with where each value came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ConfigError
from itinerary.model import (
    LEAVES,
    NOTHING,
    EffectiveConfig,
    EffectiveRecovery,
    EffectiveRetry,
    FrozenConfig,
    OverrideLevel,
    Overrides,
    RecoveryPolicy,
    Retry,
    freeze,
    from_json,
    read_overrides,
    resolve,
    to_json,
)
from itinerary.model.config import check_timeouts

SECOND = 1_000_000

levels = st.fixed_dictionaries(
    {},
    optional={
        "failure": st.sampled_from(["fail_fast", "continue", "retry_on_failure"]),
        "task_timeout": st.integers(1, 1_000),
        "retry": st.fixed_dictionaries(
            {},
            optional={
                "max_retries": st.integers(0, 10),
                "retry_interval": st.integers(0, 100),
                "backoff_factor": st.sampled_from([1.0, 1.5, 2.0]),
                "interval_max": st.integers(0, 1_000),
                "never_retry": st.lists(st.sampled_from(["A", "B"]), unique=True),
            },
        ),
    },
)


@pytest.mark.spec("X5", "defaults")
def test_the_defaults_are_those_of_the_specification() -> None:
    config = resolve()
    assert config.mode == "sequential"
    assert config.failure == "fail_fast"
    assert config.overlap == "skip"
    assert config.recovery == EffectiveRecovery(strategy=config.recovery.strategy)
    assert config.recovery.strategy == "execute_all"
    assert config.retry.max_retries == 0
    assert config.retry.backoff_factor == 1.0
    assert config.task_timeout is None
    assert ("task_timeout", "1h", OverrideLevel.DEFAULT) in config.rows()
    assert config.execution_timeout == 60 * 60 * SECOND
    assert config.timezone == "UTC"
    assert config.on_orphan == "leave"
    assert config.on_shutdown == "finish"
    assert (config.max_active, config.max_queued, config.limits) == (None, None, ())
    assert (config.priority, config.executor) == (0, "auto")
    assert {row.source for row in config.rows()} == {OverrideLevel.DEFAULT}


@pytest.mark.spec("X5", "field by field")
def test_a_task_that_sets_only_the_number_of_retries_keeps_the_waits_of_its_job() -> None:
    job = Overrides(retry=Retry(3, "45s", 2.0))
    task = Overrides(retry=Retry(max_retries=10))
    assert resolve(job=job, task=task).retry == EffectiveRetry(
        max_retries=10, retry_interval=45 * SECOND, backoff_factor=2.0, jitter=0, never_retry=()
    )


@pytest.mark.spec("X5", "field by field")
def test_a_job_that_sets_only_a_bound_keeps_the_strategy_of_the_settings() -> None:
    settings = Overrides(recovery=RecoveryPolicy("bounded_window", max_occurrences=100))
    config = resolve(settings=settings, job=Overrides(recovery=RecoveryPolicy(max_duration="24h")))
    assert (config.recovery.strategy, config.recovery.max_occurrences) == ("bounded_window", 100)
    assert config.recovery.max_duration == 86_400 * SECOND


@pytest.mark.spec("X5", "provenance")
def test_the_effective_configuration_says_where_each_value_came_from() -> None:
    config = resolve(
        settings=Overrides(timezone="Europe/Berlin", task_timeout="1m"),
        job=Overrides(
            task_timeout="2m",
            retry=Retry(3, "30s"),
            overlap=read_overrides({"overlap": "queue"}, OverrideLevel.JOB).overlap,
        ),
        task=Overrides(retry=Retry(max_retries=10)),
        occurrence=Overrides(task_timeout="4m"),
    )
    shown = {row.key: (row.value, row.source) for row in config.rows()}
    assert list(shown) == list(LEAVES)
    assert shown["timezone"] == ("Europe/Berlin", "settings")
    assert shown["overlap"] == ("queue", "job")
    assert shown["retry.retry_interval"] == ("30s", "job")
    assert shown["retry.max_retries"] == ("10", "task")
    assert shown["task_timeout"] == ("4m", "occurrence")
    assert shown["retry.backoff_factor"] == ("1.0", "default")
    assert shown["retry.interval_max"] == ("none", "default")
    assert shown["limits"] == ("none", "default")
    assert config.source("retry.max_retries") is OverrideLevel.TASK


def flat(table: dict[str, object]) -> dict[str, object]:
    leaves: dict[str, object] = {}
    for key, value in table.items():
        leaves.update(
            {f"{key}.{inner}": leaf for inner, leaf in value.items()} if isinstance(value, dict) else {key: value}
        )
    return leaves


@pytest.mark.spec("X5", "field by field")
@given(levels, levels, levels, levels)
def test_the_last_level_that_sets_a_leaf_wins(
    settings: dict[str, object], job: dict[str, object], task: dict[str, object], occurrence: dict[str, object]
) -> None:
    config = resolve(
        settings=read_overrides(settings, OverrideLevel.SETTINGS),
        job=read_overrides(job, OverrideLevel.JOB),
        task=read_overrides(task, OverrideLevel.TASK),
        occurrence=read_overrides(occurrence, OverrideLevel.OCCURRENCE),
    )
    sources = {}
    for level, table in zip(("settings", "job", "task", "occurrence"), (settings, job, task, occurrence), strict=True):
        sources.update(dict.fromkeys(flat(table), level))
    assert config.sources == sources
    winners = {**flat(settings), **flat(job), **flat(task), **flat(occurrence)}
    if "retry.max_retries" in winners:
        assert config.retry.max_retries == winners["retry.max_retries"]
    if isinstance(timeout := winners.get("task_timeout"), int):
        assert config.task_timeout == timeout * SECOND


@pytest.mark.spec("X5", "frozen")
@given(levels, levels, levels)
def test_the_effective_configuration_survives_json(
    job: dict[str, object], task: dict[str, object], occurrence: dict[str, object]
) -> None:
    frozen = freeze(
        read_overrides(job, OverrideLevel.JOB),
        {"extract": read_overrides(task, OverrideLevel.TASK), "load": NOTHING},
        occurrence=read_overrides(occurrence, OverrideLevel.OCCURRENCE),
    )
    assert from_json(FrozenConfig, to_json(frozen)) == frozen
    assert from_json(EffectiveConfig, to_json(frozen.job)) == frozen.job


@pytest.mark.spec("X5", "frozen")
def test_a_frozen_configuration_writes_out_its_defaults() -> None:
    stored = to_json(resolve())
    assert b'"task_timeout":null' in stored
    assert b'"execution_timeout":3600000000' in stored
    assert b'"overlap":"skip"' in stored


@pytest.mark.spec("X2", "per task")
def test_an_occurrence_is_frozen_with_the_configuration_of_each_task() -> None:
    job = read_overrides({"failure": "fail_fast", "task_timeout": "2m"}, OverrideLevel.JOB)
    cleanup = read_overrides({"failure": "continue"}, OverrideLevel.TASK)
    frozen = freeze(job, {"extract": NOTHING, "cleanup": cleanup})
    assert frozen.of_task("extract") is frozen.job
    assert frozen.of_task("cleanup").failure == "continue"
    assert frozen.of_task("cleanup").task_timeout == 120 * SECOND
    assert frozen.job.failure == "fail_fast"


@pytest.mark.spec("X5", "levels")
def test_a_misplaced_leaf_does_not_slip_through_when_it_is_resolved() -> None:
    with pytest.raises(ConfigError, match="priority: cannot be set on a task"):
        resolve(task=Overrides(priority=1))


@pytest.mark.spec("X5", "no task timeout of its own")
def test_an_attempt_may_take_what_is_left_of_the_execution_timeout_unless_a_task_timeout_is_set() -> None:
    config = resolve(job=Overrides(execution_timeout="3h"))
    assert config.task_timeout is None
    assert ("task_timeout", "3h", OverrideLevel.JOB) in config.rows()
    assert resolve(job=Overrides(task_timeout="1m")).task_timeout == 60 * SECOND


@pytest.mark.spec("X4", "timeouts that contradict each other")
@pytest.mark.parametrize(
    "levels",
    [
        {"settings": Overrides(task_timeout="2h")},
        {"job": Overrides(task_timeout="2h")},
        {"job": Overrides(execution_timeout="10m"), "task": Overrides(task_timeout="11m")},
    ],
    ids=["settings", "job", "task"],
)
def test_a_task_timeout_that_is_longer_than_the_execution_timeout_is_refused(levels: dict[str, Overrides]) -> None:
    with pytest.raises(ConfigError, match=r"^task_timeout: \S+ is longer than execution_timeout, \S+, which ends"):
        check_timeouts(resolve(**levels))


@pytest.mark.spec("X4", "timeouts that contradict each other")
def test_a_job_may_be_shorter_than_what_all_tasks_may_take() -> None:
    check_timeouts(resolve(settings=Overrides(task_timeout="30m"), job=Overrides(execution_timeout="10m")))
    check_timeouts(resolve(job=Overrides(task_timeout="1h")))
