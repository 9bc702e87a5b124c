"""The stored records: JSON there and back, nothing poisonous in them, nothing foreign accepted."""

import json
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import RecordError
from itinerary.model import (
    NOTHING,
    Attempt,
    AttemptId,
    IncarnationId,
    JobId,
    Kind,
    Occurrence,
    OccurrenceId,
    OccurrenceState,
    OverrideLevel,
    Overrides,
    Retry,
    Task,
    TaskId,
    TaskRun,
    TaskRunId,
    TaskState,
    Window,
    freeze,
    from_json,
    job_id,
    read_overrides,
    task_id,
    to_json,
)
from itinerary.model.definition import Definition

uuids = st.uuids()
instants = st.integers(-2_000_000_000, 8_000_000_000).map(lambda seconds: seconds * 1_000_000)
moments = st.none() | st.integers(-(2**62), 2**62)
hostile_text = st.none() | st.text(st.characters(exclude_categories=[]), max_size=50)
overrides = st.sampled_from(
    [
        NOTHING,
        Overrides(task_timeout="1m"),
        Overrides(retry=Retry(3)),
        Overrides(retry=Retry(never_retry=["E"]), limits=()),
    ]
)
definitions = st.dictionaries(
    st.sampled_from(["python", "shell"]), st.text("ab:.", max_size=5) | st.lists(st.integers(0, 9), max_size=3)
)
task_names = st.text("abc", min_size=1, max_size=3)


tasks = st.builds(
    Task,
    id=uuids.map(TaskId),
    name=task_names,
    order=st.integers(0, 9),
    definition=definitions,
    overrides=overrides,
)
versions = st.builds(
    Definition,
    schedule=st.builds(lambda seconds: {"every": f"{seconds}s"}, st.integers(1, 9)),
    overrides=overrides,
    defaults=overrides,
    tasks=st.lists(tasks, max_size=3).map(tuple),
)
occurrences = st.builds(
    Occurrence,
    id=uuids.map(OccurrenceId),
    job=uuids.map(JobId),
    job_version=st.integers(1, 9),
    kind=st.sampled_from(Kind),
    instant=instants,
    status=st.sampled_from(OccurrenceState),
    owner=st.none() | uuids.map(IncarnationId),
    fence=st.integers(0, 2**40),
    started_at=moments,
    ended_at=moments,
    overrides=overrides,
    config=st.none() | overrides.map(lambda given: freeze(NOTHING, {"a": Overrides(retry=given.retry)})),
    window=st.none() | st.builds(Window, start=instants, end=instants, count=st.integers(0, 9)),
    request_key=st.none() | task_names,
    replay_of=st.none() | uuids.map(OccurrenceId),
    replay_number=st.none() | st.integers(1, 9),
    only_tasks=st.none() | st.lists(task_names).map(tuple),
    reason=hostile_text,
)
task_runs = st.builds(
    TaskRun,
    id=uuids.map(TaskRunId),
    occurrence=uuids.map(OccurrenceId),
    task=uuids.map(TaskId),
    name=task_names,
    order=st.integers(0, 9),
    status=st.sampled_from(TaskState),
    retries=st.integers(0, 9),
    cancelled_by=hostile_text,
    reason=hostile_text,
    result=st.none() | st.just('{"rows":3}'),
)
attempts = st.builds(
    Attempt,
    id=uuids.map(AttemptId),
    task_run=uuids.map(TaskRunId),
    number=st.integers(1, 9),
    status=st.sampled_from([state for state in TaskState if state is not TaskState.SKIPPED]),
    started_at=moments,
    ended_at=moments,
    error=hostile_text,
)


@pytest.mark.spec("D2", "records")
@given(versions | tasks | occurrences | task_runs | attempts)
def test_every_record_survives_json(record: msgspec.Struct) -> None:
    encoded = to_json(record)
    assert from_json(type(record), encoded) == record
    assert to_json(from_json(type(record), encoded)) == encoded


@pytest.mark.spec("D2", "text from outside")
@given(occurrences | task_runs | attempts)
def test_no_record_holds_text_that_a_store_would_refuse(record: msgspec.Struct) -> None:
    encoded = to_json(record)
    assert "\0" not in "".join(text for text in json.loads(encoded).values() if isinstance(text, str))
    encoded.decode()


@pytest.mark.spec("D2", "text from outside")
def test_an_error_is_cleaned_and_cut_as_the_attempt_is_built() -> None:
    attempt = Attempt(
        id=AttemptId(UUID(int=1)),
        task_run=TaskRunId(UUID(int=2)),
        number=1,
        status=TaskState.FAILED,
        error="boom\0" + "x" * 10**6,
    )
    assert attempt.error is not None
    assert attempt.error.startswith("boom\ufffdxx")
    assert len(attempt.error) == 16_384


@pytest.mark.spec("D2", "task states")
def test_an_attempt_is_never_skipped() -> None:
    with pytest.raises(RecordError, match="never skipped"):
        Attempt(id=AttemptId(UUID(int=1)), task_run=TaskRunId(UUID(int=2)), number=1, status=TaskState.SKIPPED)


def task(name: str, order: int, set_values: Overrides = NOTHING) -> Task:
    identity = task_id(job_id("etl"), name)
    return Task(id=identity, name=name, order=order, definition={"python": f"app:{name}"}, overrides=set_values)


@pytest.mark.spec("D2", "only what is overridden")
def test_a_job_stores_only_what_it_overrides_and_so_does_a_task() -> None:
    version = Definition(
        schedule={"every": "15m"},
        overrides=read_overrides({"task_timeout": 300}, OverrideLevel.JOB),
        tasks=(
            task("extract", 0),
            task("load", 1, read_overrides({"retry": {"max_retries": 10}}, OverrideLevel.TASK)),
        ),
    )
    stored = json.loads(to_json(version))
    assert stored["overrides"] == {"task_timeout": "5m"}
    assert [task["overrides"] for task in stored["tasks"]] == [{}, {"retry": {"max_retries": 10}}]
    assert stored["schedule"] == {"every": "15m"}
    assert "defaults" not in stored


@pytest.mark.spec("D2", "records")
def test_a_record_cannot_be_changed() -> None:
    for record in (Definition(schedule={}), task("load", 0)):
        for field in record.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(record, field, None)


@pytest.mark.spec("D2", "kinds")
def test_recovery_of_an_instant_counts_as_scheduled() -> None:
    assert {kind.value for kind in Kind} == {"scheduled", "recovery", "replay", "trigger", "backfill"}
    assert {kind for kind in Kind if kind.is_by_schedule} == {Kind.SCHEDULED, Kind.RECOVERY}


@pytest.mark.spec("D2", "records")
@given(st.binary(max_size=50) | st.sampled_from([b"[" * 100_000, b'{"id":"x"}', b'{"id":null}', b"NaN"]))
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    for kind in (Definition, Task, Occurrence, TaskRun, Attempt):
        with pytest.raises(RecordError, match=f"not a stored {kind.__name__}"):
            from_json(kind, data)


@pytest.mark.spec("D2", "records")
def test_a_field_that_we_do_not_know_is_not_dropped_in_silence() -> None:
    stored = json.loads(to_json(Definition(schedule={})))
    with pytest.raises(RecordError, match="from_the_future"):
        from_json(Definition, json.dumps({**stored, "from_the_future": 1}))
