"""When a failed attempt is tried again, and after how long: X3 as arithmetic.

The n-th retry waits `retry_interval * backoff_factor ** (n - 1)`, at most `interval_max`, and then a jitter on top that
is read off the id of the attempt that failed. So the wait is the same on whichever node computes it, before and after a
crash, and it can be shown before it begins. No exponent can overflow: every wait ends within WAIT_MAX and the jitter.

A *lost* attempt is one whose end nobody saw, since its node is gone: it is final, and has no end. That is not the
task's fault, so it does not count here. But a task that takes its node down with it would take down one after the
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
"""How many attempts of one task may be lost with their nodes, before it is not tried again."""

NAMES_MAX: Final = 100
"""How many of the classes that an exception inherits from are kept."""

WAIT_MAX: Final = DURATION_MAX
"""The cap of a policy that sets none, in microseconds."""


def is_lost(attempt: AttemptRow) -> bool:
    """Whether nobody saw the end of an attempt: it was lost with its node."""
    return attempt.status in TASK_FINAL and attempt.ended_at is None


def costs_no_retry(attempt: AttemptRow) -> bool:
    """True if an attempt does not count for the retry policy: a crash or a shutdown of its node ended it."""
    return attempt.status is TaskState.CANCELLED or is_lost(attempt)


def may_retry(retry: EffectiveRetry, failed_number: int, error_names: Iterable[str] = ()) -> bool:
    """Whether another attempt follows the one of that number, which failed with an error of these names.

    The names are those of `exception_names`; a timeout and a non-zero exit have none.
    """
    if failed_number > retry.max_retries:
        return False
    never = set(retry.never_retry)
    return not any(name in never or name.rpartition(".")[2] in never for name in error_names)


def retry_wait(retry: EffectiveRetry, retry_number: int, failed: AttemptId) -> int:
    """Microseconds to wait before the n-th retry, n from 1, which follows the failed attempt of the same number."""
    if retry_number < 1:
        raise ConfigError(f"retry number {retry_number}: retries are counted from 1; the first attempt has no wait")
    cap = WAIT_MAX if retry.interval_max is None else retry.interval_max
    wait = _backed_off(retry.retry_interval, retry.backoff_factor, retry_number - 1, cap)
    return wait + jitter_for(failed, retry.jitter)


def exception_names(error: type[BaseException]) -> tuple[str, ...]:
    """The class and everything it inherits from, by name: to be matched where it cannot be imported.

    At most NAMES_MAX of them, and none that is too long to be written in `never_retry`.
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
