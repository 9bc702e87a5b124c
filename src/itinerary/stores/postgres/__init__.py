"""The PostgreSQL engine: many nodes on one database.

    engine                      opening, closing, and the ways to run work
    runner, deadlines           running work, repeating it, and cutting silent connections
    transaction, statements     the row operations, and their SQL
    arrays                      columns of values in the format of the server
    connections, failures       the address of the server, and the meaning of its errors
    migrate, migrations/        upgrading the schema, once, while other nodes wait
    listen                      notifications of changes by other nodes
    task_transaction, semaphore a task's own transaction (D6)
    idle_transactions           ending the sessions of frozen processes
    checks                      server settings that break a guarantee

All tables are in one schema of their own, and every statement names it: nothing depends on the search path.

**Why psycopg, and threads.** The ledger is plain synchronous Python, once for all stores, so an engine must run it
without an event loop. An asynchronous driver would need a second ledger. Measured, the two differ by a few per cent,
because the server takes most of the time.

**Behind a pooler.** The engine relies on no session state: locks and settings end with their transaction. Prepared
statements and LISTEN are not used where an unexpected server process answers.
"""

from itinerary.stores.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
