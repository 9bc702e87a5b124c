"""Whether a failed attempt is tried again, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ConfigError
from itinerary.model import (
    AttemptId,
    EffectiveRetry,
    Overrides,
    Retry,
    attempt_id,
    exception_names,
    job_id,
    may_retry,
    occurrence_id,
    resolve,
    retry_wait,
    task_id,
    task_run_id,
)
from itinerary.model.retries import WAIT_MAX

MINUTE = 60 * 1_000_000
JOB = job_id("etl")
TASK_RUN = task_run_id(occurrence_id(JOB, 0), task_id(JOB, "extract"))
FAILED = attempt_id(TASK_RUN, 1)


def policy(retry: Retry) -> EffectiveRetry:
    return resolve(task=Overrides(retry=retry)).retry


@pytest.mark.spec("X3", "waits")
def test_one_minute_doubled_gives_one_two_and_four_minutes() -> None:
    retry = policy(Retry(3, "1m", 2.0))
    assert [retry_wait(retry, n, FAILED) for n in (1, 2, 3)] == [MINUTE, 2 * MINUTE, 4 * MINUTE]


@pytest.mark.spec("X3", "waits")
def test_without_a_factor_every_wait_is_the_same() -> None:
    retry = policy(Retry(1_000, "30s"))
    assert {retry_wait(retry, n, FAILED) for n in (1, 2, 500, 1_000)} == {MINUTE // 2}


@pytest.mark.spec("X3", "cap")
def test_the_cap_bounds_the_wait() -> None:
    retry = policy(Retry(10, "1m", 3.0, interval_max="5m"))
    assert [retry_wait(retry, n, FAILED) // MINUTE for n in (1, 2, 3, 4)] == [1, 3, 5, 5]


@pytest.mark.spec("X3", "jitter")
def test_jitter_comes_on_top_and_follows_from_the_failed_attempt() -> None:
    retry = policy(Retry(10, "1m", 2.0, interval_max="1m", jitter="10s"))
    waits = [retry_wait(retry, n, attempt_id(TASK_RUN, n)) for n in range(1, 11)]
    assert all(MINUTE <= wait < MINUTE + 10_000_000 for wait in waits)
    assert len(set(waits)) == 10
    assert waits == [retry_wait(retry, n, attempt_id(TASK_RUN, n)) for n in range(1, 11)]


@pytest.mark.spec("X3", "waits")
@given(
    st.integers(0, WAIT_MAX),
    st.floats(1, 100),
    st.none() | st.integers(0, WAIT_MAX),
    st.integers(0, WAIT_MAX),
    st.integers(1, 2**31),
    st.uuids().map(AttemptId),
)
def test_no_policy_makes_a_wait_that_overflows_or_shrinks(
    interval: int, factor: float, cap: int | None, jitter: int, number: int, failed: AttemptId
) -> None:
    retry = EffectiveRetry(
        max_retries=1, retry_interval=interval, backoff_factor=factor, jitter=jitter, never_retry=(), interval_max=cap
    )
    plain = EffectiveRetry(
        max_retries=1, retry_interval=interval, backoff_factor=factor, jitter=0, never_retry=(), interval_max=cap
    )
    wait = retry_wait(retry, number, failed)
    assert isinstance(wait, int)
    assert 0 <= wait < (WAIT_MAX if cap is None else cap) + max(jitter, 1) <= 2 * WAIT_MAX + 1 < 2**63
    assert retry_wait(plain, number, failed) <= retry_wait(plain, number + 1, failed)


@pytest.mark.spec("X3", "waits")
@pytest.mark.parametrize("number", [0, -1])
def test_the_first_attempt_has_no_wait(number: int) -> None:
    with pytest.raises(ConfigError, match="counted from 1"):
        retry_wait(policy(Retry(1)), number, FAILED)


@pytest.mark.spec("X3", "max_retries")
def test_retries_are_counted_beyond_the_first_attempt() -> None:
    assert not may_retry(policy(Retry()), 1)
    retry = policy(Retry(3))
    assert [may_retry(retry, failed) for failed in (1, 2, 3, 4)] == [True, True, True, False]


class Refused(ValueError): ...


@pytest.mark.spec("X3", "never retried")
@pytest.mark.parametrize(
    ("never", "error", "retried"),
    [
        ((ValueError,), ValueError, False),
        ((ValueError,), Refused, False),
        (("ValueError",), Refused, False),
        (("Refused",), Refused, False),
        ((Refused,), Refused, False),
        ((Refused,), ValueError, True),
        (("elsewhere.Refused",), Refused, True),
        (("KeyError", "OSError"), ValueError, True),
        ((Exception,), ValueError, False),
        ((), ValueError, True),
    ],
)
def test_an_exception_that_is_never_retried_ends_the_task(
    never: tuple[str | type[BaseException], ...], error: type[BaseException], retried: bool
) -> None:
    assert may_retry(policy(Retry(3, never_retry=never)), 1, exception_names(error)) is retried


@pytest.mark.spec("X3", "never retried")
def test_an_exception_is_known_by_its_own_name_and_those_of_its_bases() -> None:
    assert exception_names(Refused)[1:] == ("ValueError", "Exception", "BaseException")
    assert exception_names(Refused)[0].endswith(".Refused")


@pytest.mark.spec("X4", "retried like a failure")
def test_a_timeout_has_no_exception_and_is_retried() -> None:
    assert may_retry(policy(Retry(1, never_retry=["Exception"])), 1)
