"""The LMDB engine: a key-value store in a directory, for one node.

    keys            values as bytes that sort like the values
    layout          the place of each table in the tree of keys
    row_locations   the rows below an occurrence
    scan            scans along the keys that skip nested rows
    transaction     the operations of `Transaction`
    files           the directory, its lock, the schema number
    session         the writer thread: savepoints, and a map that grows
    engine          the store

LMDB has no transactions for tasks (D6), and a second process is refused. Use SQLite for several processes.
"""

from itinerary.stores.lmdb.engine import LmdbEngine

__all__ = ["LmdbEngine"]
