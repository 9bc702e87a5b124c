"""Stores: everything that must survive a restart.

    tables, transaction     the stored tables, and the operations that an engine provides on them
    ledger/                 the rules of the durable protocol, once for all engines
    memory, sqlite/, postgres/, lmdb/    the engines

    store, urls             a store on an engine, and how its URL opens it

An engine knows nothing of jobs or tasks. An engine keeps rows and guarantees its transactions.
"""

from itinerary.stores.urls import open_store

__all__ = ["open_store"]
