"""Records: units of business work that are known only by their events (SPEC E), picked up, called back and verified.

    kinds, settings, quiet      what may be said of a record; the numbers that govern a desk; when it is quiet
    projection, deciding        what is so, read off the events; what a cycle does about it
    shares                      which partitions are whose
                                these decide, and are pure: no I/O, no clock

    declared, desk              what a program declares, and what it asks
    clerk                       a desk at work on one node: its cycles; with
        holdings, seats             the partitions that it holds, and who else is there
        zone_lookup                 the time zones of these partitions
        delivery, batches           what goes to the handlers
        outage, figures             what is done while the store is away; the figures
    service, ground             all desks of a node; what they stand on
    producing                   appending from outside

The app is above this, and the engine below: a desk knows the engine's store, clock and log, and the app through a
protocol (`desk.Host`).
"""

from itinerary.records.batches import Batch, Cycled, Event, Record
from itinerary.records.scheduler import RecordDesk

__all__ = ["Batch", "Cycled", "Event", "Record", "RecordDesk"]
