"""The LMDB engine: a key-value store in a directory, for one node.

    keys        values as bytes that sort as the values do
    layout      where each table's rows are in the tree of keys
    walking     along the keys, over what lies between
    transaction the primitives of `Transaction`
    files       the directory, its lock, the schema number
    session     what the writer's thread does: savepoints, and a map that grows
    engine      the store

It has no transactions for tasks (D6), and a second process is refused: SQLite is for several of them.
"""

from itinerary.stores.lmdb.engine import LmdbEngine

__all__ = ["LmdbEngine"]
