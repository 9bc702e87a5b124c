"""The ledger: the rules of the durable protocol, once for all engines.

A function here is one transaction. The function locks its rows, decides about each in plain Python, and writes in bulk.
The engine provides the transaction, and with it isolation and durability. The modules, in the order in which an
occurrence meets them:

    timeline      changes to the timeline: versions, pauses, removal; exclusive behind the gate
    claim         create if absent, then read which rows belong to the caller
    bulk_start    plain starts, which need no read
    start         due, not cancelled, still owned or free to take; overlap slots and limits; the first attempts
    write         reports of the owner, later launches, the end; takeovers and requests of people
    sweep         makes sure that every due instant has a row
    nodes, events, history, prune, queries, tokens     nodes, event logs, ended occurrences, pruning, reads, access
    indexes       the tables that find occurrences
    unit_of_work  the locked rows, and the invariants of every change
    warm_up       one full pass that is rolled back, so that the first real one is not the slowest

Every write passes the gate first. The gate detects that a migration has changed the schema (protocol rule 26).

No function here knows its engine, waits, or reads a clock. Any function may run twice.
"""

from itinerary.stores.ledger.bulk_start import begin, plain_ones
from itinerary.stores.ledger.claim import claim, is_prepared, prepare
from itinerary.stores.ledger.configs import number_configs
from itinerary.stores.ledger.events import append_events, lease_partitions, notify, stream_topic
from itinerary.stores.ledger.nodes import beat, join, leave, note_statistics
from itinerary.stores.ledger.prune import count_prunable, prune
from itinerary.stores.ledger.queries import answer
from itinerary.stores.ledger.start import start
from itinerary.stores.ledger.sweep import advance_sweep, begin_sweep
from itinerary.stores.ledger.timeline import TIMELINE_TOPIC, amend
from itinerary.stores.ledger.tokens import grant_token, revoke_token
from itinerary.stores.ledger.unit_of_work import mail_topic
from itinerary.stores.ledger.warm_up import WarmedUp, warm_up
from itinerary.stores.ledger.write import control, has_made, intervene, write, write_once

__all__ = [
    "TIMELINE_TOPIC",
    "WarmedUp",
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
    "notify",
    "number_configs",
    "plain_ones",
    "prepare",
    "prune",
    "revoke_token",
    "start",
    "stream_topic",
    "warm_up",
    "write",
    "write_once",
]
