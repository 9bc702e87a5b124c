"""Ids: golden values, what they are made of, and what is refused."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Callable
from typing import cast
from uuid import NAMESPACE_OID, UUID, uuid5

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from itinerary.errors import IdentityError
from itinerary.model import ids
from itinerary.model.ids import (
    JobId,
    OccurrenceId,
    attempt_id,
    backfill_id,
    jitter_for,
    job_id,
    occurrence_id,
    replay_id,
    run_id,
    task_id,
    task_run_id,
    trigger_id,
)

NEW_YEAR = 1_767_225_600_000_000

JOB = job_id("etl")
TASK = task_id(JOB, "extract")
OCCURRENCE = occurrence_id(JOB, NEW_YEAR)
TASK_RUN = task_run_id(OCCURRENCE, TASK)

GOLDEN = {
    "job": (JOB, "55343693-38ab-5686-9c6b-8f56c98e67ec"),
    "job with a slash, a colon and an umlaut": (job_id("Füße/a:b c"), "fd3aa5a8-d0ad-56a3-b360-a5ad8c763c46"),
    "task": (TASK, "8a7469be-f6b5-54d2-90b0-e09d516d76fc"),
    "occurrence": (OCCURRENCE, "cfae2773-e634-5b3a-8bbc-58cc652fdea8"),
    "occurrence at the epoch": (occurrence_id(JOB, 0), "77bbe03c-3513-597a-9b50-d8f184dfa254"),
    "occurrence before the epoch": (occurrence_id(JOB, -1_000_000), "d324e4a1-469c-5014-b722-065d4715eac3"),
    "backfill": (backfill_id(JOB, NEW_YEAR), "5c75807d-6c46-5edc-a8d5-023512664a10"),
    "trigger": (trigger_id(JOB, "request-7"), "d955e05e-026c-53ce-a7cc-4201b519231a"),
    "first replay": (replay_id(JOB, OCCURRENCE, 1), "99bc3236-1461-5e1f-9ae7-73bb8a719b03"),
    "second replay": (replay_id(JOB, OCCURRENCE, 2), "93724d20-d09c-5286-8215-d67a0364bad3"),
    "task run": (TASK_RUN, "209fc73f-4842-559e-bfb3-b56eec975e49"),
    "first attempt": (attempt_id(TASK_RUN, 1), "e950df52-3dc1-570d-a8a8-73c3c8947377"),
    "second attempt": (attempt_id(TASK_RUN, 2), "9b3a69bd-e200-53c0-99e8-22958ebd7b1d"),
}

HUGE = pytest.param(10**5_000, id="huge")

names = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x1FFF, categories=["L", "N", "P"]), min_size=1, max_size=20
)
instants = st.integers(-2_000_000_000, 8_000_000_000).map(lambda seconds: seconds * 1_000_000)


@pytest.mark.spec("D1", "golden")
@pytest.mark.parametrize("kind", GOLDEN)
def test_an_id_is_what_it_was_when_it_was_first_written_down(kind: str) -> None:
    computed, written = GOLDEN[kind]
    assert computed == UUID(written)


FRESH_PROGRAM = f"""
from itinerary.model.ids import *
job = job_id("etl")
task, occurrence = task_id(job, "extract"), occurrence_id(job, {NEW_YEAR})
run = task_run_id(occurrence, task)
print(job, task, occurrence, backfill_id(job, {NEW_YEAR}), trigger_id(job, "request-7"), replay_id(job, occurrence, 1))
print(run, attempt_id(run, 1), jitter_for(occurrence, 60_000_000))
"""


async def in_a_fresh_interpreter(program: str, hash_seed: int) -> list[str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=PIPE, env={**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    )
    output, _ = await child.communicate()
    return output.decode().split()


@pytest.mark.spec("D1", "golden")
@pytest.mark.parametrize("hash_seed", [1, 4_294_967_295])
def test_another_interpreter_with_another_hash_seed_computes_the_same_ids(hash_seed: int) -> None:
    kinds = ["job", "task", "occurrence", "backfill", "trigger", "first replay", "task run", "first attempt"]
    computed = asyncio.run(in_a_fresh_interpreter(FRESH_PROGRAM, hash_seed))
    assert computed == [*(GOLDEN[kind][1] for kind in kinds), "11002246"]


@pytest.mark.spec("D1", "documented text")
def test_every_id_is_the_uuid5_of_its_namespace_and_its_documented_text() -> None:
    assert uuid5(ids.JOB_NAMESPACE, "etl") == JOB
    assert uuid5(ids.TASK_NAMESPACE, f"{JOB}/extract") == TASK
    assert uuid5(ids.OCCURRENCE_NAMESPACE, f"{JOB}/scheduled/1767225600") == OCCURRENCE
    assert uuid5(ids.OCCURRENCE_NAMESPACE, f"{JOB}/backfill/1767225600") == backfill_id(JOB, NEW_YEAR)
    assert uuid5(ids.OCCURRENCE_NAMESPACE, f"{JOB}/trigger/a/b") == trigger_id(JOB, "a/b")
    assert uuid5(ids.OCCURRENCE_NAMESPACE, f"{JOB}/replay/{OCCURRENCE}/3") == replay_id(JOB, OCCURRENCE, 3)
    assert uuid5(ids.TASK_RUN_NAMESPACE, f"{OCCURRENCE}/{TASK}") == TASK_RUN
    assert uuid5(ids.ATTEMPT_NAMESPACE, f"{TASK_RUN}/1") == attempt_id(TASK_RUN, 1)


@pytest.mark.spec("D1", "namespaces")
def test_every_kind_has_a_namespace_of_its_own() -> None:
    written = {
        "job": ids.JOB_NAMESPACE,
        "task": ids.TASK_NAMESPACE,
        "occurrence": ids.OCCURRENCE_NAMESPACE,
        "task_run": ids.TASK_RUN_NAMESPACE,
        "attempt": ids.ATTEMPT_NAMESPACE,
    }
    assert written == {kind: uuid5(NAMESPACE_OID, f"itinerary/{kind}") for kind in written}


@pytest.mark.spec("D1", "unambiguous")
@given(names, names, instants, instants)
def test_different_things_have_different_ids(one: str, other: str, earlier: int, later: int) -> None:
    assume(one != other)
    assume(earlier != later)
    a, b = job_id(one), job_id(other)
    made = [
        a,
        b,
        *(task_id(job, name) for job in (a, b) for name in (one, other)),
        *(occurrence_id(job, instant) for job in (a, b) for instant in (earlier, later)),
        *(backfill_id(job, instant) for job in (a, b) for instant in (earlier, later)),
        *(trigger_id(job, key) for job in (a, b) for key in (one, other)),
        *(replay_id(a, occurrence_id(a, instant), number) for instant in (earlier, later) for number in (1, 2, 12)),
    ]
    assert len(set(made)) == len(made)


@pytest.mark.spec("D1", "unambiguous")
def test_a_request_key_that_imitates_another_kind_is_still_a_trigger() -> None:
    imitations = ["1767225600", "../scheduled/1767225600", f"{OCCURRENCE}/1", "scheduled/1767225600"]
    assert len({OCCURRENCE, replay_id(JOB, OCCURRENCE, 1), *(trigger_id(JOB, key) for key in imitations)}) == 6


@pytest.mark.spec("D1", "refused")
@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("x" * 256, "256 characters long, 255 are allowed"),
        pytest.param("x" * 10_000_000, "10000000 characters long", id="ten million"),
        ("a\0b", "U\\+0000 at position 2"),
        ("tab\there", "U\\+0009"),
        ("line\nbreak", "U\\+000A"),
        ("\x9b31m", "U\\+009B"),
        pytest.param("\ud800", "U\\+D800", id="surrogate"),
        ("gpj.\u202eexe", "U\\+202E"),
        (" padded", "begins or ends with a space"),
        (7, "is not text"),
        (None, "is not text"),
        (b"etl", "is not text"),
    ],
)
@pytest.mark.parametrize(
    "make", [job_id, lambda name: task_id(JOB, name), lambda key: trigger_id(JOB, key), lambda name: run_id(name, 0)]
)
def test_a_name_that_cannot_be_stored_or_read_is_refused(
    make: Callable[[object], object], name: object, complaint: str
) -> None:
    with pytest.raises(IdentityError, match=complaint):
        make(name)


@pytest.mark.spec("D1")
def test_the_longest_name_is_accepted() -> None:
    assert job_id("ß" * 255).version == 5


@pytest.mark.spec("D1", "refused")
@pytest.mark.parametrize("instant", [1, NEW_YEAR + 1, -1, 2**63, HUGE, 1.5, 0.0, True, None, "0"])
@pytest.mark.parametrize(
    "make", [lambda at: occurrence_id(JOB, at), lambda at: backfill_id(JOB, at), lambda at: run_id("etl", at)]
)
def test_an_instant_that_is_not_a_whole_second_is_refused(make: Callable[[object], object], instant: object) -> None:
    with pytest.raises(IdentityError, match="instant"):
        make(instant)


@pytest.mark.spec("D1", "refused")
@pytest.mark.parametrize("number", [0, -1, 2**31, HUGE, 1.0, True, None, "1"])
@pytest.mark.parametrize("make", [lambda n: attempt_id(TASK_RUN, n), lambda n: replay_id(JOB, OCCURRENCE, n)])
def test_attempts_and_replays_are_counted_from_one(make: Callable[[object], object], number: object) -> None:
    with pytest.raises(IdentityError, match="is not a whole number from 1"):
        make(number)


@pytest.mark.spec("D1", "refused")
def test_text_in_the_place_of_an_id_is_refused() -> None:
    with pytest.raises(IdentityError, match="'etl' is not an id"):
        occurrence_id(cast("JobId", "etl"), 0)


@pytest.mark.spec("L9", "run id")
def test_people_are_told_the_job_and_the_second() -> None:
    assert run_id("etl", NEW_YEAR) == "etl:1767225600"


@pytest.mark.spec("S6", "jitter")
@given(st.uuids(version=4).map(OccurrenceId), st.integers(0, 366 * 86_400 * 1_000_000))
def test_jitter_lies_below_its_bound_and_never_changes(occurrence: OccurrenceId, bound: int) -> None:
    delay = jitter_for(occurrence, bound)
    assert 0 <= delay < max(bound, 1)
    assert jitter_for(occurrence, bound) == delay


@pytest.mark.spec("S6", "jitter")
def test_jitter_is_what_it_was_when_it_was_first_written_down() -> None:
    assert jitter_for(OCCURRENCE, 60_000_000) == 11_002_246
    assert jitter_for(attempt_id(TASK_RUN, 1), 60_000_000) == 38_116_890


@pytest.mark.spec("S6", "jitter")
def test_jitter_is_spread_evenly_over_the_occurrences_of_a_job() -> None:
    counts = Counter(jitter_for(occurrence_id(JOB, n * 60_000_000), 10) for n in range(10_000))
    assert set(counts) == set(range(10))
    assert all(850 < count < 1_150 for count in counts.values())


@pytest.mark.spec("S6", "jitter")
def test_a_negative_jitter_is_refused() -> None:
    with pytest.raises(IdentityError, match="-1 is negative"):
        jitter_for(OCCURRENCE, -1)


@pytest.mark.spec("D1")
def test_an_id_is_a_plain_uuid() -> None:
    assert isinstance(JobId(JOB), UUID)
    assert JOB.version == 5
