"""The violations that the checkers find, as sentences that name the row and the time.

`Rule` lists everything that is checked. A mutant of the program must break a rule; otherwise a run without violations
proves nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from itinerary.audit import Check

__all__ = ["Rule", "Violation", "Violations"]

_KEPT_MAX: Final = 100


class Rule(StrEnum):
    """A rule that every world must follow."""

    # at every commit (see `commits`)
    ONE_ROW = Check.ONE_ROW.value
    FENCE = "who takes an occurrence from its owner raises the fence"
    STALE = "nothing is accepted from a stale fence, and nothing twice"
    FINAL = "final states are never left"
    EARLY = "nothing starts before its instant"
    EXPECTED = "nothing starts by schedule that its job does not have, or that is paused"
    OVERLAP = "a job runs once at a time, unless it allows more"
    SKIPPED = "a merely late instant is skipped only for a run that had the slot when it was due"
    OVERDUE = "a claimed instant older than the grace period starts only after a sweep has decided it"
    ORDER = "a recovery run starts only after every older instant of its job"
    DEAD_RUN = "nothing is skipped because of a run whose node was dead when the skipped one was due"
    LIMIT = "no limit is exceeded"
    ATTEMPT = "an attempt that has ended does not change"
    WATERMARK = "the watermark never goes back, and never passes the store's time, or what is not decided"
    GATED = "nothing is launched that was not written first"
    DEAD = "work in flight is taken only from a node that was silent for long enough, or whose process is gone"
    ZONE_DATA = "zone data is never replaced by older zone data, nor by the same"
    ONE_START = "an attempt starts at most once"
    LEASE = "a partition passes to another only when its lease has run out or was given back, under a higher fence"
    STALE_APPEND = "nothing is appended under a lease that the partition does not have any more"
    # at the end, for any store (see `itinerary.audit`)
    OWED = Check.OWED.value
    TRAIL = Check.TRAIL.value
    INDEXES = Check.INDEXES.value
    HELD = Check.HELD.value
    LINE = Check.LINE.value
    # at the end, for a world with known events (see `checker`)
    SETTLED = "everything is final, and everything held is given back"
    RESULTS = "rows say what the tasks did"
    BESIDE = "no two runs of one job really overlap, unless it allows that"
    PROMPT = "ends are written at once"
    RETRIES = "attempts are numbered from one, and within the policy"
    SEQUENCE = "tasks in sequence do not overlap"
    ONE_PLACE = "what is run again runs in one place at a time"
    LOG = "the log of records is numbered without gaps, and says once what was said"
    PICKED_UP = "records are queued, picked up and handled exactly as the log says"
    SHUTDOWN = "a graceful shutdown does to what runs what its job says, and loses nothing else"
    QUIET = "no node fails"
    OBEYED = "a node that gets SIGTERM has ended within its grace period"


class Violation(msgspec.Struct, frozen=True):
    """A broken rule."""

    rule: Rule
    at: int | None
    """The time by the store clock, or None."""
    message: str

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {self.at}"
        return f"{self.rule}{when}: {self.message}"


class Violations:
    """The first hundred violations, and the number of all."""

    def __init__(self) -> None:
        self.found: list[Violation] = []
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, rule: Rule, message: str, at: int | None = None) -> None:
        """Add a violation."""
        self.count += 1
        if len(self.found) < _KEPT_MAX:
            self.found.append(Violation(rule, at, message))

    def rules(self) -> list[Rule]:
        """Return the broken rules, in the order of `Rule`."""
        broken = {violation.rule for violation in self.found}
        return [rule for rule in Rule if rule in broken]
