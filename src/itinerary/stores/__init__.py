"""Stores: where everything durable lives.

    tables, transaction     what there is to keep, and what an engine must be able to do with it
    ledger/                 the rules of the durable protocol, once for all engines
    memory, sqlite/, postgres/, lmdb/    the engines

    store, opening          a store on an engine, and by its URL

An engine knows nothing of jobs or tasks. It keeps rows, and the promises of its transactions.
"""

from itinerary.stores.urls import open_store

__all__ = ["open_store"]
