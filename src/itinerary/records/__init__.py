"""Records: business items, known only by their events (SPEC E), that are queued, called back and verified.

    event_types, settings, quiet_hours    the events of a record; the settings of a record scheduler; its quiet hours
    projection, cycle                     the state of a partition, computed from its events; the decisions of a cycle
    partition_assignment                  which node should hold which partitions
                                          these modules are pure: no I/O, no clock

    declaration, scheduler                what a program declares, and what it can call
    worker                                a record scheduler on one node: its cycles; with
        partition_leases, membership          the partitions that the node holds, and the other nodes
        zone_lookup                           the time zones of these partitions
        delivery, batches                     the delivery to the handlers
        store_retry, metrics                  retries during a store outage; the metrics
    service, environment                  all record schedulers of a node; their store, clock and log
    append                                append events from outside
    inspect                               read record schedulers from outside, without a node

The API layer is above this package, and the engine is below. A record scheduler uses the store, clock and log of the
engine, and reaches the API layer through a protocol (`scheduler.Host`).
"""

from itinerary.records.batches import CycleCounts, Event, Record, RecordBatch
from itinerary.records.scheduler import RecordScheduler

__all__ = ["CycleCounts", "Event", "Record", "RecordBatch", "RecordScheduler"]
