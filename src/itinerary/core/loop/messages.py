"""Everything that the loop is told. Messages are in the past tense: they say what happened, and ask for nothing.

Those that somebody waits for carry a `reply`: whatever the loop answers goes out as a `Reply` command with the same
object in it, and whoever sent the message knows what to do with that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.recovery.membership import Members
from itinerary.core.timeline.index import ScheduledRunIndex
from itinerary.core.timeline.job_plan import PlanBook
from itinerary.model.attempts import AttemptKey, Report
from itinerary.model.queries import Detail
from itinerary.model.rows import JobNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.writes import Change, Claimed, Refusal, Refused, Start, Started, Wanted, Written

__all__ = [
    "ActiveAsked",
    "AttemptsReported",
    "CancelRequested",
    "ClaimsAnswered",
    "ClockDoubted",
    "ClockJumped",
    "ConfigurationUpdated",
    "Heartbeats",
    "IndexBuilt",
    "JobAsked",
    "JobChanged",
    "MembersChanged",
    "Message",
    "OccurrenceAsked",
    "ReplyTo",
    "RowsRead",
    "SettingsChanged",
    "ShutdownRequested",
    "StartsAnswered",
    "StatisticsAsked",
    "TakenUp",
    "TouchLost",
    "TouchRegained",
    "TransactionEnded",
    "TransactionOpened",
    "Unclaimable",
    "WorkOffered",
    "WritesAnswered",
]

ReplyTo: TypeAlias = object
"""What an answer is for; only who sent the message knows."""


class _Message(msgspec.Struct, frozen=True):
    """Something that happened."""


# -- from the index builder ------------------------------------------------------------------------------------------


class IndexBuilt(_Message, frozen=True):
    """What is due in the next minutes, of which jobs, as of a revision of the timeline."""

    revision: int
    index: ScheduledRunIndex
    jobs: Sequence[tuple[JobNumber, int]]
    """What the numbers of the index stand for: a job, at the version that is in force at those instants."""
    job_numbers: NDArray[np.int64]
    """The jobs alone, as a column."""
    plans: PlanBook


class JobChanged(_Message, frozen=True):
    """The timeline is at another revision."""

    revision: int


class MembersChanged(_Message, frozen=True):
    """Others are there to share the work with than before."""

    members: Members


class ClockDoubted(_Message, frozen=True):
    """The store's time is far from where it should be: until it is certain again, nothing is begun (protocol rule
    23)."""

    by: int


class ClockJumped(_Message, frozen=True):
    """The store's time is certain again, and another than before, by that much."""

    by: int
    why: str
    is_absorbed: bool = False
    """The node's time agrees with the store's all the same: nothing has to be put off."""


# -- from the claimer, the starter and the syncer ----------------------------------------------------------------------


class ClaimsAnswered(_Message, frozen=True):
    """What became of claims: those that were won, or why none could be."""

    wanted: Sequence[Wanted]
    answer: Sequence[Claimed] | Refusal


class Unclaimable(_Message, frozen=True):
    """Claims that no store could take, for good: they are logged, and not asked for again."""

    wanted: Sequence[Wanted]
    error: str


class StartsAnswered(_Message, frozen=True):
    """What became of starts, one answer for each."""

    starts: Sequence[Start]
    answers: Sequence[Started | Refused]


class TakenUp(_Message, frozen=True):
    """What became of occurrences that began elsewhere and were to be taken: each as it is now, or why it was not."""

    answers: Sequence[Detail | Refused]


class WritesAnswered(_Message, frozen=True):
    """What became of changes, one answer for each."""

    changes: Sequence[Change]
    answers: Sequence[Written | Refused]


# -- from the orchestrators ------------------------------------------------------------------------------------------


class AttemptsReported(_Message, frozen=True):
    """Attempts that ended, or moved."""

    reports: Sequence[Report]


class Heartbeats(_Message, frozen=True):
    """These occurrences are being looked after."""

    refs: Sequence[Ref]


class TransactionOpened(_Message, frozen=True):
    """A task wants to write in a transaction that commits with its success (D6)."""

    attempt: AttemptKey
    reply: ReplyTo


class TransactionEnded(_Message, frozen=True):
    """It has: committed, or not at all. `writes` says how many writes of the occurrence it made: one, or none."""

    attempt: AttemptKey
    committed: bool
    writes: int


# -- from the watcher ------------------------------------------------------------------------------------------------


class RowsRead(_Message, frozen=True):
    """Occurrences of this node that somebody has cancelled or adjusted, as they are now."""

    rows: Sequence[OccurrenceRow]


class WorkOffered(_Message, frozen=True):
    """Occurrences that anybody may start, or go on with."""

    rows: Sequence[OccurrenceRow]


class TouchLost(_Message, frozen=True):
    """The store has not heard this node for so long (microseconds) that others may soon take it for dead."""

    silent_for: int


class TouchRegained(_Message, frozen=True):
    """The store has heard this node again."""


# -- from people -----------------------------------------------------------------------------------------------------


class CancelRequested(_Message, frozen=True):
    """Somebody wants an occurrence to end. The request is durable already (protocol rule 25)."""

    ref: Ref
    by: str
    reply: ReplyTo = None


class ConfigurationUpdated(_Message, frozen=True):
    """An occurrence that has not started has new overrides, which are durable already."""

    ref: Ref
    overrides: str
    adjustments: int
    reply: ReplyTo = None


class OccurrenceAsked(_Message, frozen=True):
    """What is known of one occurrence?"""

    ref: Ref
    reply: ReplyTo


class ActiveAsked(_Message, frozen=True):
    """What is active?"""

    reply: ReplyTo


class JobAsked(_Message, frozen=True):
    """How is a job?"""

    job: JobNumber
    reply: ReplyTo


class StatisticsAsked(_Message, frozen=True):
    """How is the loop?"""

    reply: ReplyTo


class SettingsChanged(_Message, frozen=True):
    """The settings were read again, and these hold from now on (U13)."""

    settings: Settings


class ShutdownRequested(_Message, frozen=True):
    """The node shall end."""

    why: str


Message: TypeAlias = (
    IndexBuilt
    | JobChanged
    | MembersChanged
    | ClockDoubted
    | ClockJumped
    | ClaimsAnswered
    | Unclaimable
    | StartsAnswered
    | TakenUp
    | WritesAnswered
    | AttemptsReported
    | Heartbeats
    | TransactionOpened
    | TransactionEnded
    | RowsRead
    | WorkOffered
    | TouchLost
    | TouchRegained
    | CancelRequested
    | ConfigurationUpdated
    | OccurrenceAsked
    | ActiveAsked
    | JobAsked
    | StatisticsAsked
    | SettingsChanged
    | ShutdownRequested
)
