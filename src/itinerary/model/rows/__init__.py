"""The rows of a store, with plain values in every field: the declared schema of all stores.

    JobRow 1 ── n EntryRow                       a job, and its timeline: versions, pauses, removal (protocol rule 3)
       │ └──── OverlapSlotRow 1 ── n HistoryChunkRow    its overlap slot, and its history in order
       └─ n OccurrenceRow 1 ── n TaskRow 1 ── n AttemptRow
                 └───────────── n TransitionRow      the audit trail (D3)

Rows are for programs. The store assigns short numbers. The UUIDs of D1, which people and other systems use, are
computed for display (`Key.id`). UUIDs were measured as keys: they cost a third of a write in memory. At five million
rows their index takes eight times as long to grow, because each key lands at a random place. Instants are microseconds
since the epoch.

    keys, jobs, occurrences, nodes, events, tokens     the rows, by subject

Thousands of rows are created per second, so these are structs without garbage collection or validation. Text from
outside is cleaned where it enters (see `writes`).
"""

from itinerary.model.rows.events import EventRow, IdempotencyKeyRow, PartitionRow, StreamRow
from itinerary.model.rows.jobs import (
    ConfigRow,
    EntryKind,
    EntryRow,
    HistoryChunkRow,
    JobRow,
    LimitRow,
    OverlapSlotRow,
    ShareRow,
    StoreMetaRow,
    SweepRow,
)
from itinerary.model.rows.keys import FOR_ALL, JobNumber, Key, NodeNumber, Ref
from itinerary.model.rows.nodes import MailRow, NodeRow, NotificationRow, StatisticsRow
from itinerary.model.rows.occurrences import (
    ActiveRow,
    AttemptRow,
    OccurrenceRow,
    OverlapQueueRow,
    TaskRow,
    TransitionRow,
    WaitingRow,
    WindowRow,
)
from itinerary.model.rows.tokens import TokenRow

__all__ = [
    "FOR_ALL",
    "ActiveRow",
    "AttemptRow",
    "ConfigRow",
    "EntryKind",
    "EntryRow",
    "EventRow",
    "HistoryChunkRow",
    "IdempotencyKeyRow",
    "JobNumber",
    "JobRow",
    "Key",
    "LimitRow",
    "MailRow",
    "NodeNumber",
    "NodeRow",
    "NotificationRow",
    "OccurrenceRow",
    "OverlapQueueRow",
    "OverlapSlotRow",
    "PartitionRow",
    "Ref",
    "ShareRow",
    "StatisticsRow",
    "StoreMetaRow",
    "StreamRow",
    "SweepRow",
    "TaskRow",
    "TokenRow",
    "TransitionRow",
    "WaitingRow",
    "WindowRow",
]
