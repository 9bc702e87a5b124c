"""The policies that a job or a task may choose, as a person writes them.

`Retry` and `RecoveryPolicy` are overrides: a field that is None is *not set here* and comes from the level above (see
`config`). So a task can set `Retry(max_retries=10)` and keep the waits of its job.

The two classes accept durations in any form and store one spelling of them (see `validators`). The constructors below
only declare that for type checkers. msgspec generates the real ones, and `__post_init__` does the conversion.

A program never compares a policy with one of its members. The program uses a property below, or a `match` that ends in
`assert_never`. So the type checker reports every decision when a policy gets a new member.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.validators import Check, duration, exceptions, number, one_of, settle, whole

if TYPE_CHECKING:
    from collections.abc import Collection

    from itinerary.schedules.durations import DurationLike

__all__ = [
    "Failure",
    "Mode",
    "OnOrphan",
    "OnShutdown",
    "Overlap",
    "Recovery",
    "RecoveryPolicy",
    "Retry",
    "Undeclared",
    "UpdatePolicy",
]


class Mode(StrEnum):
    """The order in which the tasks of an occurrence run (X1)."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"

    @property
    def is_parallel(self) -> bool:
        """True if all tasks start at once."""
        match self:
            case Mode.PARALLEL:
                return True
            case Mode.SEQUENTIAL:
                return False
            case _:
                assert_never(self)


class Failure(StrEnum):
    """The effect of a task's final failure on the other tasks (X2)."""

    FAIL_FAST = "fail_fast"
    """Running tasks are cancelled, the remaining ones are skipped."""
    CONTINUE = "continue"
    """Every task runs. On a single task: it runs even if another task has failed."""
    RETRY_ON_FAILURE = "retry_on_failure"
    """No further task starts while the task waits for its retry. After the final failure, running tasks finish and the
    rest is skipped."""

    @property
    def stops_peers(self) -> bool:
        """True if a failure cancels the tasks in flight."""
        match self:
            case Failure.FAIL_FAST:
                return True
            case Failure.CONTINUE | Failure.RETRY_ON_FAILURE:
                return False
            case _:
                assert_never(self)

    @property
    def spares_peers(self) -> bool:
        """True if a failure leaves the other tasks alone."""
        match self:
            case Failure.CONTINUE:
                return True
            case Failure.FAIL_FAST | Failure.RETRY_ON_FAILURE:
                return False
            case _:
                assert_never(self)

    @property
    def holds_peers(self) -> bool:
        """True if no other task starts while this one waits for its retry."""
        match self:
            case Failure.RETRY_ON_FAILURE:
                return True
            case Failure.FAIL_FAST | Failure.CONTINUE:
                return False
            case _:
                assert_never(self)


class Overlap(StrEnum):
    """The action when an occurrence is due while the previous one still runs (X6)."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    """Occurrences wait and run in the order of their instants. If `max_queued` is set, at most that number waits."""
    REPLACE = "replace"
    """The running occurrence is cancelled."""

    @property
    def is_parallel(self) -> bool:
        """True if runs of a job need no overlap slot."""
        match self:
            case Overlap.ALLOW:
                return True
            case Overlap.SKIP | Overlap.QUEUE | Overlap.REPLACE:
                return False
            case _:
                assert_never(self)

    @property
    def skips(self) -> bool:
        """True if a run is skipped while another one has the overlap slot."""
        match self:
            case Overlap.SKIP:
                return True
            case Overlap.ALLOW | Overlap.QUEUE | Overlap.REPLACE:
                return False
            case _:
                assert_never(self)

    @property
    def queues(self) -> bool:
        """True if a run waits in the queue while another one has the overlap slot."""
        match self:
            case Overlap.QUEUE:
                return True
            case Overlap.SKIP | Overlap.ALLOW | Overlap.REPLACE:
                return False
            case _:
                assert_never(self)

    @property
    def replaces(self) -> bool:
        """True if a run cancels the one that has the overlap slot."""
        match self:
            case Overlap.REPLACE:
                return True
            case Overlap.SKIP | Overlap.ALLOW | Overlap.QUEUE:
                return False
            case _:
                assert_never(self)


class UpdatePolicy(StrEnum):
    """The time at which a new version of a job replaces the old one (R7)."""

    IMMEDIATE = "immediate"
    """Immediately."""
    GRACEFUL = "graceful"
    """After the next instant of the old version, or from a given time on."""
    WINDOWED = "windowed"
    """Immediately. Only a given number of next occurrences, or a given time, is compared."""

    @property
    def is_graceful(self) -> bool:
        """True if the old version keeps its next instant."""
        match self:
            case UpdatePolicy.GRACEFUL:
                return True
            case UpdatePolicy.IMMEDIATE | UpdatePolicy.WINDOWED:
                return False
            case _:
                assert_never(self)

    @property
    def is_windowed(self) -> bool:
        """True if only a window is compared."""
        match self:
            case UpdatePolicy.WINDOWED:
                return True
            case UpdatePolicy.IMMEDIATE | UpdatePolicy.GRACEFUL:
                return False
            case _:
                assert_never(self)


class Undeclared(StrEnum):
    """The treatment of a job that its source no longer declares."""

    KEEP = "keep"
    """The job continues to run."""
    STOP = "stop"
    """The job is stopped. A new declaration starts it again."""
    REMOVE = "remove"
    """The job is removed. Its history stays."""

    @property
    def keeps(self) -> bool:
        """True if the job continues to run."""
        match self:
            case Undeclared.KEEP:
                return True
            case Undeclared.STOP | Undeclared.REMOVE:
                return False
            case _:
                assert_never(self)

    @property
    def stops(self) -> bool:
        """True if the job is stopped."""
        match self:
            case Undeclared.STOP:
                return True
            case Undeclared.KEEP | Undeclared.REMOVE:
                return False
            case _:
                assert_never(self)

    @property
    def removes(self) -> bool:
        """True if the job is removed."""
        match self:
            case Undeclared.REMOVE:
                return True
            case Undeclared.KEEP | Undeclared.STOP:
                return False
            case _:
                assert_never(self)


class Recovery(StrEnum):
    """The treatment of instants that passed while no node was running (R1)."""

    EXECUTE_ALL = "execute_all"
    EXECUTE_LAST = "execute_last"
    MARK_AS_MISSED = "mark_as_missed"
    BOUNDED_WINDOW = "bounded_window"
    """The most recent ones run, within `max_duration` and then `max_occurrences`. A bound that is not set does not
    limit."""
    COMPRESSED = "compressed"
    """A single run covers the whole window, which it receives."""

    @property
    def is_compressed(self) -> bool:
        """True if one run covers all missed instants."""
        match self:
            case Recovery.COMPRESSED:
                return True
            case Recovery.EXECUTE_ALL | Recovery.EXECUTE_LAST | Recovery.MARK_AS_MISSED | Recovery.BOUNDED_WINDOW:
                return False
            case _:
                assert_never(self)

    @property
    def only_marks(self) -> bool:
        """True if no missed instant runs."""
        match self:
            case Recovery.MARK_AS_MISSED:
                return True
            case Recovery.EXECUTE_ALL | Recovery.EXECUTE_LAST | Recovery.BOUNDED_WINDOW | Recovery.COMPRESSED:
                return False
            case _:
                assert_never(self)

    @property
    def has_bounds(self) -> bool:
        """True if `max_duration` and `max_occurrences` apply."""
        match self:
            case Recovery.BOUNDED_WINDOW:
                return True
            case Recovery.EXECUTE_ALL | Recovery.EXECUTE_LAST | Recovery.MARK_AS_MISSED | Recovery.COMPRESSED:
                return False
            case _:
                assert_never(self)


class OnOrphan(StrEnum):
    """The treatment of an occurrence whose node died while it ran (N3)."""

    LEAVE = "leave"
    """The occurrence ends as `orphaned`. Its progress is unknown, so no node runs it again without a request."""
    RERUN = "rerun"
    """The occurrence goes to `retrying`. For tasks that may safely run twice."""

    @property
    def reruns(self) -> bool:
        """True if the occurrence runs again."""
        match self:
            case OnOrphan.RERUN:
                return True
            case OnOrphan.LEAVE:
                return False
            case _:
                assert_never(self)


class OnShutdown(StrEnum):
    """The effect of a graceful shutdown of the node on an occurrence whose function is running (R9)."""

    FINISH = "finish"
    """The run continues for the grace period less `kill_grace`. After that it is cancelled."""
    CANCEL = "cancel"
    """The run is cancelled at once."""
    RERUN = "rerun"
    """The run is interrupted at once. Another node or the next start runs it again. That costs no retry."""

    @property
    def reruns(self) -> bool:
        """True if an interrupted run runs again."""
        match self:
            case OnShutdown.RERUN:
                return True
            case OnShutdown.FINISH | OnShutdown.CANCEL:
                return False
            case _:
                assert_never(self)


class Retry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A retry policy for failed attempts (X3): `Retry(10, "1m", 2.0)` waits 1, 2, 4 … minutes, ten times.

    `interval_max` caps the wait. `jitter` then adds a delay below it, the same on every node. An exception in
    `never_retry`, or a subclass of one, fails the task at once. A bare class name matches every class of that name, a
    dotted one that class alone.
    """

    max_retries: int | None = None
    retry_interval: str | None = None
    backoff_factor: float | None = None
    interval_max: str | None = None
    jitter: str | None = None
    never_retry: tuple[str, ...] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            max_retries: int | None = None,
            retry_interval: DurationLike | None = None,
            backoff_factor: float | None = None,
            interval_max: DurationLike | None = None,
            jitter: DurationLike | None = None,
            never_retry: Collection[str | type[BaseException]] | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        settle(self, "retry.", _RETRY)


class RecoveryPolicy(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A recovery strategy and its bounds: `RecoveryPolicy("bounded_window", max_duration="24h")`."""

    strategy: Recovery | None = None
    max_occurrences: int | None = None
    max_duration: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            strategy: Recovery | str | None = None,
            max_occurrences: int | None = None,
            max_duration: DurationLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        settle(self, "recovery.", _RECOVERY)
        bounds = [key for key in ("max_occurrences", "max_duration") if getattr(self, key) is not None]
        if bounds and self.strategy is not None and not self.strategy.has_bounds:
            raise ConfigError(
                f"recovery.{bounds[0]}: has no effect on {self.strategy}; only {Recovery.BOUNDED_WINDOW} has bounds"
            )


_RETRY: Final[dict[str, Check]] = {
    "max_retries": whole(0, 1_000),
    "retry_interval": duration(0),
    "backoff_factor": number(1.0, 100.0),
    "interval_max": duration(0),
    "jitter": duration(0),
    "never_retry": exceptions,
}
_RECOVERY: Final[dict[str, Check]] = {
    "strategy": one_of(Recovery),
    "max_occurrences": whole(0, 10_000_000),
    "max_duration": duration(0),
}
