"""The decision whether and when a failed attempt is retried: X3 as arithmetic.

The n-th retry waits `retry_interval * backoff_factor ** (n - 1)`, at most `interval_max`, plus a jitter. The jitter is
derived from the id of the failed attempt. So every node computes the same wait, before and after a crash, and the wait
can be shown before it begins. No exponent can overflow: every wait ends within WAIT_MAX plus the jitter.

A *lost* attempt is one whose end no node observed, because its node is gone: it is final and has no end. That is not
the task's fault, so it does not count as a failure. But a task that crashes its node would crash one node after the
other, so there is a bound.

A *cancelled* attempt that another one follows was interrupted by the shutdown of its node (R9). That does not count
either.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from itinerary.errors import ConfigError
from itinerary.model.config import EffectiveRetry
from itinerary.model.ids import AttemptId, jitter_for
from itinerary.model.rows import AttemptRow
from itinerary.model.states import TASK_FINAL, TaskState
from itinerary.model.text import NAME_MAX
from itinerary.model.validators import DURATION_MAX, exception_name

__all__ = [
    "LOST_MAX",
    "NAMES_MAX",
    "WAIT_MAX",
    "costs_no_retry",
    "exception_names",
    "is_lost",
    "may_retry",
    "retry_wait",
]

LOST_MAX: Final = 10
"""The most attempts of one task that may be lost with their nodes. After that the task is not retried."""

NAMES_MAX: Final = 100
"""The most base classes of an exception that are kept."""

WAIT_MAX: Final = DURATION_MAX
"""The cap of a policy that sets none, in microseconds."""


def is_lost(attempt: AttemptRow) -> bool:
    """True if no node observed the end of an attempt: it was lost with its node."""
    return attempt.status in TASK_FINAL and attempt.ended_at is None


def costs_no_retry(attempt: AttemptRow) -> bool:
    """True if an attempt does not count for the retry policy: a crash or a shutdown of its node ended it."""
    return attempt.status is TaskState.CANCELLED or is_lost(attempt)


def may_retry(retry: EffectiveRetry, failed_number: int, error_names: Iterable[str] = ()) -> bool:
    """True if another attempt follows a failed one.

    Args:
        retry: The retry policy.
        failed_number: The number of the failed attempt.
        error_names: The names from `exception_names`. A timeout and a non-zero exit have none.
    """
    if failed_number > retry.max_retries:
        return False
    never = set(retry.never_retry)
    return not any(name in never or name.rpartition(".")[2] in never for name in error_names)


def retry_wait(retry: EffectiveRetry, retry_number: int, failed: AttemptId) -> int:
    """Return the wait before a retry, in microseconds.

    Args:
        retry: The retry policy.
        retry_number: The number of the retry, from 1. The failed attempt has the same number.
        failed: The id of the failed attempt, for the jitter.

    Raises:
        ConfigError: The number is below 1.
    """
    if retry_number < 1:
        raise ConfigError(f"retry number {retry_number}: retries are counted from 1; the first attempt has no wait")
    cap = WAIT_MAX if retry.interval_max is None else retry.interval_max
    wait = _backed_off(retry.retry_interval, retry.backoff_factor, retry_number - 1, cap)
    return wait + jitter_for(failed, retry.jitter)


def exception_names(error: type[BaseException]) -> tuple[str, ...]:
    """Return the names of an exception class and its base classes, for matching where the class cannot be imported.

    At most NAMES_MAX names are returned, and none that is too long for `never_retry`.
    """
    kinds = islice((kind for kind in error.__mro__ if issubclass(kind, BaseException)), NAMES_MAX)
    return tuple(exception_name(kind) for kind in kinds if len(kind.__qualname__) <= NAME_MAX)


def _backed_off(interval: int, factor: float, times: int, cap: int) -> int:
    if not interval:
        return 0
    try:
        wait = interval * factor**times
    except OverflowError:
        return cap
    return round(wait) if wait < cap else cap
