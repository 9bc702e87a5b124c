"""Messages: everything that the loop receives. Names are in the past tense, and say what happened.

A message whose sender waits for an answer has a `reply`. The answer leaves the loop as a `Reply` command with the same
object, which only the sender interprets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from itinerary.core.recovery.membership import Members
from itinerary.core.timeline.index import ScheduledRunIndex
from itinerary.core.timeline.job_plan import PlanCache
from itinerary.model.attempts import AttemptKey, Report
from itinerary.model.queries import Detail
from itinerary.model.rows import JobNumber, OccurrenceRow, Ref
from itinerary.model.settings import Settings
from itinerary.model.writes import Claimed, ClaimRequest, OwnerWrite, Refusal, Refused, Started, StartRequest, Written

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
    "StoreContactLost",
    "StoreContactRestored",
    "TakenUp",
    "TransactionEnded",
    "TransactionOpened",
    "Unclaimable",
    "WorkOffered",
    "WritesAnswered",
]

ReplyTo: TypeAlias = object
"""The address of an answer. Only the sender of the message interprets it."""


class _Message(msgspec.Struct, frozen=True):
    """Base class of all messages."""


# -- from the index builder ------------------------------------------------------------------------------------------


class IndexBuilt(_Message, frozen=True):
    """The runs that are due in the next minutes, and their jobs, as of one revision of the timeline."""

    revision: int
    index: ScheduledRunIndex
    jobs: Sequence[tuple[JobNumber, int]]
    """The meaning of the index numbers: a job, and its version in force at those instants."""
    job_numbers: NDArray[np.int64]
    """The job numbers alone, as a column."""
    plans: PlanCache


class JobChanged(_Message, frozen=True):
    """A new revision of the timeline."""

    revision: int


class MembersChanged(_Message, frozen=True):
    """A change of the nodes that share the work."""

    members: Members


class ClockDoubted(_Message, frozen=True):
    """A store clock that is far from its expected time. Nothing starts until it is certain again (protocol rule 23)."""

    by: int


class ClockJumped(_Message, frozen=True):
    """A store clock that is certain again, and has jumped by `by` microseconds."""

    by: int
    why: str
    is_absorbed: bool = False
    """True if the node's time still agrees with the store's, so that no timer has to move."""


# -- from the claimer, the starter and the syncer ----------------------------------------------------------------------


class ClaimsAnswered(_Message, frozen=True):
    """The answers to claims: the claims that were won, or why none was."""

    wanted: Sequence[ClaimRequest]
    answer: Sequence[Claimed] | Refusal


class Unclaimable(_Message, frozen=True):
    """Claims that no store can accept. The loop logs them and does not retry."""

    wanted: Sequence[ClaimRequest]
    error: str


class StartsAnswered(_Message, frozen=True):
    """The answers to starts, one for each."""

    starts: Sequence[StartRequest]
    answers: Sequence[Started | Refused]


class TakenUp(_Message, frozen=True):
    """The answers to takeovers: the occurrence as it is now, or why it was refused."""

    answers: Sequence[Detail | Refused]


class WritesAnswered(_Message, frozen=True):
    """The answers to changes, one for each."""

    changes: Sequence[OwnerWrite]
    answers: Sequence[Written | Refused]


# -- from the orchestrators ------------------------------------------------------------------------------------------


class AttemptsReported(_Message, frozen=True):
    """Attempts that ended or changed their state."""

    reports: Sequence[Report]


class Heartbeats(_Message, frozen=True):
    """Heartbeats of the orchestrators of these occurrences."""

    refs: Sequence[Ref]


class TransactionOpened(_Message, frozen=True):
    """A request of a task to write in a transaction that commits with its success (D6)."""

    attempt: AttemptKey
    reply: ReplyTo


class TransactionEnded(_Message, frozen=True):
    """The end of a task transaction, committed or not.

    `writes` is the number of writes of the occurrence that it made: one or none.
    """

    attempt: AttemptKey
    committed: bool
    writes: int


# -- from the watcher ------------------------------------------------------------------------------------------------


class RowsRead(_Message, frozen=True):
    """The current rows of occurrences that were cancelled or adjusted, or whose turn in the overlap queue has come."""

    rows: Sequence[OccurrenceRow]


class WorkOffered(_Message, frozen=True):
    """Occurrences that any node may start or resume."""

    rows: Sequence[OccurrenceRow]


class StoreContactLost(_Message, frozen=True):
    """A loss of contact with the store, after which other nodes may soon declare this node dead.

    `silent_for` is the time since the store last heard this node, in microseconds.
    """

    silent_for: int


class StoreContactRestored(_Message, frozen=True):
    """The return of contact with the store."""


# -- from people -----------------------------------------------------------------------------------------------------


class CancelRequested(_Message, frozen=True):
    """A request to end an occurrence. The request is durable already (protocol rule 25)."""

    ref: Ref
    by: str
    reply: ReplyTo = None


class ConfigurationUpdated(_Message, frozen=True):
    """New overrides of an occurrence that has not started. The overrides are durable already."""

    ref: Ref
    overrides: str
    adjustments: int
    reply: ReplyTo = None


class OccurrenceAsked(_Message, frozen=True):
    """A query for one occurrence."""

    ref: Ref
    reply: ReplyTo


class ActiveAsked(_Message, frozen=True):
    """A query for all active occurrences."""

    reply: ReplyTo


class JobAsked(_Message, frozen=True):
    """A query for the status of a job."""

    job: JobNumber
    reply: ReplyTo


class StatisticsAsked(_Message, frozen=True):
    """A query for the statistics of the loop."""

    reply: ReplyTo


class SettingsChanged(_Message, frozen=True):
    """Settings that were read again and are in force from now on (U13)."""

    settings: Settings


class ShutdownRequested(_Message, frozen=True):
    """A request to shut the node down."""

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
    | StoreContactLost
    | StoreContactRestored
    | CancelRequested
    | ConfigurationUpdated
    | OccurrenceAsked
    | ActiveAsked
    | JobAsked
    | StatisticsAsked
    | SettingsChanged
    | ShutdownRequested
)
