"""The policies that a job or a task may choose, as a person writes them.

`Retry` and `RecoveryPolicy` are overrides, like all configuration that is written down: a field that is None is *not
set here* and comes from the level above (see `config`). So a task can say `Retry(max_retries=10)` and keep the waits of
its job.

Both take durations in any form and keep one spelling of them (see `values`). The constructors below only declare that,
for type checkers: msgspec makes the real ones, and `__post_init__` does the work.

A program never compares a policy with one of its members: it asks a property below, or has a `match` that ends in
`assert_never`. So the type checker names every decision when a policy gets a new member.
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
    """How the tasks of an occurrence follow each other (X1)."""

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
    """What a task that has failed for good means for the others (X2)."""

    FAIL_FAST = "fail_fast"
    """Tasks in flight are cancelled, the rest is skipped."""
    CONTINUE = "continue"
    """All tasks run. On a single task: it runs even though a peer has failed."""
    RETRY_ON_FAILURE = "retry_on_failure"
    """While it waits to retry nothing further starts; afterwards the rest is skipped and what is in flight finishes."""

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
    """What happens when an occurrence is due and the one before it still runs (X6)."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    """In the order of their instants, at most `max_queued` of them if that is set."""
    REPLACE = "replace"
    """The one that runs is cancelled."""

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
    """When a new version of a job takes the place of the old one (R7)."""

    IMMEDIATE = "immediate"
    """From now on."""
    GRACEFUL = "graceful"
    """After the next instant that the old version has, or from a given time on."""
    WINDOWED = "windowed"
    """From now on; only the next so many occurrences, or so much time, are compared."""

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
    """What becomes of a job that its source no longer declares."""

    KEEP = "keep"
    """The job runs on."""
    STOP = "stop"
    """The job is stopped, and starts again when it is declared again."""
    REMOVE = "remove"
    """The job is removed; its history stays."""

    @property
    def keeps(self) -> bool:
        """True if the job runs on."""
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
    """What happens to instants that passed while no node was there (R1)."""

    EXECUTE_ALL = "execute_all"
    EXECUTE_LAST = "execute_last"
    MARK_AS_MISSED = "mark_as_missed"
    BOUNDED_WINDOW = "bounded_window"
    """The most recent ones run, within `max_duration` and then `max_occurrences`; a bound not set does not limit."""
    COMPRESSED = "compressed"
    """One run, told the window that it answers for."""

    @property
    def is_compressed(self) -> bool:
        """True if one run stands for all missed instants."""
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
    """What becomes of an occurrence whose node died while it ran (N3)."""

    LEAVE = "leave"
    """It ends as `orphaned`: nobody knows how far it came, so nobody runs it again unasked."""
    RERUN = "rerun"
    """It goes to `retrying`, for tasks that may safely run twice."""

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
    """What a graceful shutdown of its node does to an occurrence whose function runs (R9)."""

    FINISH = "finish"
    """The run goes on for the grace period less `kill_grace`. After that it is cancelled."""
    CANCEL = "cancel"
    """The run is cancelled at once."""
    RERUN = "rerun"
    """The run is interrupted at once, and run again by another node or by the next start. That costs no retry."""

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
    """When a failed attempt is tried again (X3): `Retry(10, "1m", 2.0)` waits 1, 2, 4 … minutes, ten times.

    `interval_max` caps the wait; `jitter` then adds a delay below it, the same on every node. An exception in
    `never_retry`, or a subclass of one, fails the task at once: a bare class name stands for every class of that name,
    a dotted one for that class alone.
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
