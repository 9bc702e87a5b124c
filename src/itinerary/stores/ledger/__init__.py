"""The ledger: the rules of the durable protocol, once, for every engine.

Each function here is one transaction. It locks the rows that it is about, decides about each in plain Python, and
writes in bulk. An engine brings the transaction, and with it isolation and durability; the rules are here, in the order
in which an occurrence meets them:

    amending      the timeline: versions, pauses, removal; alone behind the gate
    claiming      create-if-absent; then read which are mine
    beginning     the plain starts among them, which need not be read
    starting      due, not cancelled, still mine or free to take; slots and limits; the first attempts
    writing       what the owner reports, every later launch, the end; what others and people do to it
    sweeping      that nothing due is without a row
    attendance, events, history, pruning, reading, tokens     nodes, logs, what was, forgetting, queries, who may
    indexes       the tables by which occurrences are found
    pages         the rows under lock, and the invariants that hold whoever changes them
    rehearsing    all of it once, to be undone, so that the first time is not the slowest

Whatever writes passes the gate first: it finds out there that a migration has changed the schema under it (protocol
rule 26).

Nothing in here knows which engine it runs on, waits, or reads a clock; any function may be run twice.
"""

from itinerary.stores.ledger.bulk_start import begin, plain_ones
from itinerary.stores.ledger.claim import claim, is_prepared, prepare
from itinerary.stores.ledger.configs import number_configs
from itinerary.stores.ledger.events import append_events, lease_partitions, stream_topic, tell
from itinerary.stores.ledger.nodes import beat, join, leave, note_statistics
from itinerary.stores.ledger.prune import count_prunable, prune
from itinerary.stores.ledger.queries import answer
from itinerary.stores.ledger.start import start
from itinerary.stores.ledger.sweep import advance_sweep, begin_sweep
from itinerary.stores.ledger.timeline import TIMELINE_TOPIC, amend
from itinerary.stores.ledger.tokens import grant_token, revoke_token
from itinerary.stores.ledger.unit_of_work import mail_topic
from itinerary.stores.ledger.warm_up import Rehearsed, rehearse
from itinerary.stores.ledger.write import control, has_made, intervene, write, write_once

__all__ = [
    "TIMELINE_TOPIC",
    "Rehearsed",
    "advance_sweep",
    "amend",
    "answer",
    "append_events",
    "beat",
    "begin",
    "begin_sweep",
    "claim",
    "control",
    "count_prunable",
    "grant_token",
    "has_made",
    "intervene",
    "is_prepared",
    "join",
    "lease_partitions",
    "leave",
    "mail_topic",
    "note_statistics",
    "number_configs",
    "plain_ones",
    "prepare",
    "prune",
    "rehearse",
    "revoke_token",
    "start",
    "stream_topic",
    "tell",
    "write",
    "write_once",
]
