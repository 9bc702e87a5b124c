"""What people write: every form that is accepted, and a helpful error for everything else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ConfigError, RecordError
from itinerary.model import (
    LEAVES,
    Failure,
    Mode,
    OnOrphan,
    OnShutdown,
    Overlap,
    OverrideLevel,
    Overrides,
    Recovery,
    RecoveryPolicy,
    Retry,
    from_json,
    read_overrides,
    to_json,
)

durations = (
    st.integers(1, 10_000_000)
    | st.timedeltas(timedelta(milliseconds=1), timedelta(days=1))
    | st.sampled_from(["30s", "1h30m", "1d", "PT15M", "250ms", "1.5s"])
)
short_durations = st.timedeltas(timedelta(0), timedelta(days=1)) | st.sampled_from(["0s", "1m", 7])
exceptions = st.lists(st.sampled_from(["ValueError", "package.module.Error", KeyError, OSError]), max_size=3)
retries = st.fixed_dictionaries(
    {},
    optional={
        "max_retries": st.integers(0, 1_000),
        "retry_interval": durations,
        "backoff_factor": st.floats(1, 100) | st.integers(1, 100),
        "interval_max": durations,
        "jitter": short_durations,
        "never_retry": exceptions,
    },
)
bounds = st.fixed_dictionaries({}, optional={"max_occurrences": st.integers(0, 1_000), "max_duration": durations})
recoveries = st.sampled_from(Recovery) | bounds | bounds.map(lambda table: {"strategy": "bounded_window", **table})
tables = st.fixed_dictionaries(
    {},
    optional={
        "timezone": st.sampled_from(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12"]),
        "mode": st.sampled_from(Mode),
        "failure": st.sampled_from(Failure),
        "overlap": st.sampled_from(Overlap),
        "max_queued": st.integers(1, 1_000),
        "max_active": st.integers(1, 1_000),
        "limits": st.lists(st.sampled_from(["api", "db", "disk-1"]), max_size=4),
        "recovery": recoveries,
        "retry": retries,
        "task_timeout": durations,
        "execution_timeout": durations,
        "priority": st.integers(-1_000, 1_000),
        "on_orphan": st.sampled_from(OnOrphan),
        "on_shutdown": st.sampled_from(OnShutdown),
        "executor": st.sampled_from(["thread", "process", "pod"]),
        "alerts": st.booleans(),
        "alert_after": st.sampled_from(["1s", "10m"]),
    },
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.spec("D2", "only what is overridden")
def test_json_holds_what_was_set_and_nothing_else() -> None:
    written = {"overlap": "queue", "retry": {"max_retries": 3}}
    assert to_json(Overrides()) == b"{}"
    assert json.loads(to_json(read_overrides(written, OverrideLevel.JOB))) == written


@pytest.mark.spec("D2", "only what is overridden")
@given(tables)
def test_overrides_survive_json_and_read_back_as_a_person_would_write_them(table: dict[str, object]) -> None:
    overrides = read_overrides(table, OverrideLevel.JOB)
    encoded = to_json(overrides)
    assert from_json(Overrides, encoded) == overrides
    assert read_overrides(json.loads(encoded), OverrideLevel.JOB) == overrides
    assert hash(from_json(Overrides, encoded)) == hash(overrides)
    assert to_json(from_json(Overrides, encoded)) == encoded


@pytest.mark.spec("X5", "what is accepted")
@pytest.mark.parametrize(
    "written", ["90s", "1m30s", "PT90S", "PT1M30S", 90, 90.0, timedelta(seconds=90), "1.5m", " 1m 30s "]
)
def test_every_way_to_write_a_duration_is_one_value(written: object) -> None:
    assert read_overrides({"task_timeout": written}, OverrideLevel.JOB) == Overrides(task_timeout="1m30s")


@pytest.mark.spec("X3", "what is accepted")
def test_a_retry_is_written_as_arguments_or_as_a_table() -> None:
    retry = Retry(10, "1m", 2.0)
    assert retry == Retry(max_retries=10, retry_interval=timedelta(minutes=1), backoff_factor=2)
    assert read_overrides({"retry": retry}, OverrideLevel.TASK) == read_overrides(
        {"retry": {"max_retries": 10, "retry_interval": 60, "backoff_factor": 2}}, OverrideLevel.TASK
    )


@pytest.mark.spec("X3", "never retried")
def test_exceptions_are_given_as_classes_or_by_name() -> None:
    class Local(Exception): ...

    retry = Retry(never_retry=[ValueError, "package.Error", "ValueError", ConfigError, Local])
    assert retry.never_retry is not None
    assert {"ValueError", "package.Error", "itinerary.errors.ConfigError"} < set(retry.never_retry)
    assert len(retry.never_retry) == 4
    assert from_json(Retry, to_json(retry)) == retry


@pytest.mark.spec("R1", "what is accepted")
def test_a_recovery_is_a_strategy_or_a_table_with_bounds() -> None:
    assert read_overrides({"recovery": "execute_last"}, OverrideLevel.JOB).recovery == RecoveryPolicy(
        Recovery.EXECUTE_LAST
    )
    assert read_overrides(
        {"recovery": {"strategy": "bounded_window", "max_occurrences": 100, "max_duration": "24h"}}, OverrideLevel.JOB
    ).recovery == RecoveryPolicy("bounded_window", 100, timedelta(days=1))


@pytest.mark.spec("X11", "names of limits")
def test_limits_are_a_set_of_names() -> None:
    assert read_overrides({"limits": ["db", "api", "db"]}, OverrideLevel.JOB).limits == ("api", "db")
    assert read_overrides({"limits": []}, OverrideLevel.JOB).limits == ()


@pytest.mark.spec("X5", "what is accepted")
def test_none_is_not_set() -> None:
    table: dict[str, object] = dict.fromkeys(Overrides.__struct_fields__)
    assert read_overrides(table, OverrideLevel.TASK) == Overrides()


BAD: list[tuple[Any, str]] = [
    ({"overlpa": "skip"}, "overlpa: unknown key; did you mean 'overlap'\\? allowed keys: timezone, mode, "),
    ({"zzz": 1}, "zzz: unknown key; allowed keys: "),
    ({1: 2}, "1: unknown key; allowed keys: "),
    ({"retry": {"max_retry": 3}}, "retry.max_retry: unknown key; did you mean 'max_retries'\\?"),
    ({"recovery": {"strat": 3}}, "recovery.strat: unknown key; did you mean 'strategy'\\?"),
    ("skip", "job: 'skip' is not a table; allowed keys: "),
    ([], "job: a value of type 'list' is not a table"),
    ({"retry": 3}, "retry: 3 is not a table; allowed keys: max_retries, "),
    ({"recovery": 3}, "recovery: 3 is not a table; allowed keys: strategy, "),
    (
        {"recovery": "execute_lst"},
        "recovery: 'execute_lst' is unknown; did you mean 'execute_last'\\? allowed: execute_all",
    ),
    ({"mode": "Parallel"}, "mode: 'Parallel' is unknown; did you mean 'parallel'\\? allowed: sequential, parallel"),
    ({"mode": 1}, "mode: 1 is unknown; allowed: sequential, parallel"),
    ({"mode": Overlap.SKIP}, "mode: .* is unknown; allowed: sequential, parallel"),
    ({"retry": {"max_retries": -1}}, "retry.max_retries: -1 is out of range 0-1000"),
    ({"retry": {"max_retries": 3.0}}, "retry.max_retries: 3.0 is not a whole number; allowed: 0-1000"),
    ({"retry": {"max_retries": True}}, "retry.max_retries: True is not a whole number"),
    ({"retry": {"max_retries": 10**5_000}}, "retry.max_retries: a number of 16610 bits is out of range"),
    ({"retry": {"backoff_factor": 0.5}}, "retry.backoff_factor: 0.5 is out of range 1.0-100.0"),
    ({"retry": {"backoff_factor": float("nan")}}, "retry.backoff_factor: nan is out of range"),
    ({"retry": {"backoff_factor": 10**5_000}}, "retry.backoff_factor: a number of 16610 bits is out of range"),
    ({"retry": {"backoff_factor": "2"}}, "retry.backoff_factor: '2' is not a number"),
    ({"retry": {"retry_interval": "soon"}}, "retry.retry_interval: duration 'soon' cannot be read"),
    ({"retry": {"never_retry": "ValueError"}}, "retry.never_retry: 'ValueError' is not a list of names"),
    ({"retry": {"never_retry": ["a b"]}}, "retry.never_retry: 'a b' is not an exception"),
    ({"retry": {"never_retry": [int]}}, "retry.never_retry: a value of type 'type' is not an exception"),
    ({"retry": {"never_retry": ["E"] * 101}}, "retry.never_retry: 101 names are too many; 100 are allowed"),
    ({"task_timeout": 0}, "task_timeout: duration 0 is too short; at least 1ms is required"),
    ({"task_timeout": -5}, "task_timeout: duration -5 is negative"),
    ({"task_timeout": "367d"}, "task_timeout: 367d is too long; at most 366d"),
    ({"task_timeout": 10**5_000}, "task_timeout: a number of 16610 bits is too long"),
    ({"task_timeout": float("inf")}, "task_timeout: duration inf is not a finite"),
    ({"task_timeout": True}, "task_timeout: duration True is a truth value"),
    ({"task_timeout": []}, "task_timeout: a value of type 'list' is not a duration"),
    ({"task_timeout": "9" * 1_000_000}, "task_timeout: duration is 1000000 characters long"),
    ({"execution_timeout": "P1M"}, "execution_timeout: duration 'P1M' has years or months"),
    ({"jitter": "1m"}, "jitter: unknown key"),
    ({"priority": 1_001}, "priority: 1001 is out of range -1000-1000"),
    ({"max_active": 0}, "max_active: 0 is out of range 1-"),
    ({"max_queued": 0}, "max_queued: 0 is out of range 1-"),
    ({"limits": {"api": 5}}, "limits: a value of type 'dict' is not a list of names"),
    ({"limits": ["a b"]}, "limits: 'a b' is not a name"),
    ({"executor": "../thread"}, "executor: '../thread' is not a name"),
    ({"alerts": "yes"}, "alerts: 'yes' is neither true nor false"),
    ({"alert_after": "0s"}, "alert_after: "),
    ({"timezone": "../../etc/passwd"}, "timezone: '../../etc/passwd' is not a time zone; write an IANA name"),
    ({"timezone": "UTC\0"}, "timezone: .* is not a time zone"),
    ({"timezone": "x" * 65}, "timezone: .* is not a time zone"),
    (
        {"recovery": {"strategy": "compressed", "max_occurrences": 3}},
        "recovery.max_occurrences: has no effect on compressed; only bounded_window has bounds",
    ),
]


@pytest.mark.spec("X5", "errors")
@pytest.mark.parametrize(("table", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_what_is_wrong_is_refused_by_key_with_what_is_allowed(table: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        read_overrides(table, OverrideLevel.JOB)


def read_or_complaint(table: object) -> Overrides | str:
    try:
        return read_overrides(table, OverrideLevel.JOB)
    except ConfigError as error:
        return str(error)


@pytest.mark.spec("Q7", "unknown keys")
@given(st.dictionaries(st.sampled_from(Overrides.__struct_fields__) | st.text(max_size=10), junk, max_size=3) | junk)
def test_any_input_at_all_is_read_or_refused_with_a_short_message(table: object) -> None:
    read = read_or_complaint(table)
    if isinstance(read, Overrides):
        assert from_json(Overrides, to_json(read)) == read
    else:
        assert len(read) < 1_000


SET_SOMEWHERE: dict[str, Any] = {
    "timezone": "UTC",
    "mode": "parallel",
    "failure": "continue",
    "overlap": "queue",
    "max_queued": 1,
    "max_active": 1,
    "limits": ["api"],
    "recovery": "execute_last",
    "retry": {"max_retries": 1},
    "task_timeout": "1m",
    "execution_timeout": "1m",
    "priority": 1,
    "on_orphan": "rerun",
    "on_shutdown": "rerun",
    "executor": "thread",
    "alerts": False,
    "alert_after": "1m",
}
ALLOWED_ON_A_TASK = {"failure", "retry", "task_timeout", "executor"}
REFUSED_ON_AN_OCCURRENCE = {
    *("timezone", "recovery", "max_queued", "max_active", "limits", "executor", "alerts", "alert_after"),
}


@pytest.mark.spec("X5", "levels")
@pytest.mark.parametrize("key", Overrides.__struct_fields__)
def test_what_is_about_the_whole_job_cannot_be_set_on_a_task(key: str) -> None:
    table = {key: SET_SOMEWHERE[key]}
    assert read_overrides(table, OverrideLevel.JOB) != Overrides()
    if key in ALLOWED_ON_A_TASK:
        assert read_overrides(table, OverrideLevel.TASK) == read_overrides(table, OverrideLevel.JOB)
    else:
        with pytest.raises(ConfigError, match=f"^{key}.*: cannot be set on a task; set it .*on the job"):
            read_overrides(table, OverrideLevel.TASK)


@pytest.mark.spec("X5", "levels")
@pytest.mark.parametrize("key", Overrides.__struct_fields__)
def test_what_was_decided_before_an_occurrence_exists_cannot_be_set_on_it(key: str) -> None:
    table = {key: SET_SOMEWHERE[key]}
    if key in REFUSED_ON_AN_OCCURRENCE:
        with pytest.raises(ConfigError, match=f"^{key}.*: cannot be set on an occurrence; set it .*on the job"):
            read_overrides(table, OverrideLevel.OCCURRENCE)
    else:
        assert read_overrides(table, OverrideLevel.OCCURRENCE) == read_overrides(table, OverrideLevel.JOB)


@pytest.mark.spec("X5", "levels")
def test_every_field_has_its_leaves_in_the_table() -> None:
    flat = {key.partition(".")[0] for key in LEAVES}
    assert flat == set(Overrides.__struct_fields__)
    assert {key for key in LEAVES if key.startswith("retry.")} == {f"retry.{name}" for name in Retry.__struct_fields__}


@pytest.mark.spec("D2", "only what is overridden")
@pytest.mark.parametrize(
    "stored", [b"", b"[]", b'{"overlap":"hop"}', b'{"new":1}', b'{"retry":{"max_retries":-1}}', b"{\xff"]
)
def test_stored_overrides_that_are_not_ours_are_refused(stored: bytes) -> None:
    with pytest.raises(RecordError, match="not a stored Overrides"):
        from_json(Overrides, stored)
