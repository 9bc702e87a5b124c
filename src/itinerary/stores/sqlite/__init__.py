"""SQLite: the embedded default. One file, no server, several processes of one machine.

    engine              the store itself: opening, writing, reading, watching
    session, readers    the writer thread, and the reader threads beside it
    read_only           reading on a full disk
    wal_limit           the size limit of the write-ahead log
    transaction         the row operations; statements: their SQL; rows: conversion of values
    row_cache           rows that need not be read again
    task_transaction    transactions for a task's own statements (D6); authorizer: what those may not do
    schema              the owner and the schema of a file; migrations/: its upgrades
    connections         the setup of a connection; failures: errors of SQLite as store errors
    file_watch          writes of other processes; forks: why a forked child must not use its parent's store

Nothing here knows the meaning of the rows.
"""

from itinerary.stores.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
