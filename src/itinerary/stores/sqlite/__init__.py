"""SQLite: the embedded default. One file, no server, several processes of one machine.

    engine          the store itself: opening, writing, reading, watching
    session         what the one writer's thread does; readers: those who read beside it; alone: reading on a full disk
    log             how long the write-ahead log may grow
    transaction     the primitives; statements: their SQL, made from the declared tables; rows: to values and back
    tasks           transactions for a task's own statements (D6); guard: what those may not do
    schema          whose file it is, which schema it has; migrations/: how it got there
    connections     how a connection is set up; failures: SQLite's errors, as ours
    watching        what other processes have written; forks: why a forked child may not go on with its parent's store

Nothing here knows what the rows mean.
"""

from itinerary.stores.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
