"""The PostgreSQL engine: many nodes on one database.

    engine                      how work is run, repeated and given up; opening and closing
    transaction, statements     the row primitives, and the SQL that they are
    arrays                      columns of values, as the server takes them
    connections, failures       where the server is, and what its errors mean
    migrating, migrations/      bringing the schema up to date, once, while others wait
    listening                   hearing of what others have done
    tasks, places               a task's own transaction (D6)
    checks                      settings of the server that would break our promises

Everything of ours is in one schema of its own, and every statement says so: nothing depends on the search path.

**Why psycopg, and threads.** The ledger is plain synchronous Python, once for all stores, so an engine has to be able
to run it without an event loop. An asynchronous driver would need a second ledger. Measured, the difference between
the two was a few per cent, since the server is what takes the time.

**Behind a pooler.** Nothing of a session is relied on: locks and settings end with their transaction, prepared
statements are left out where another server process than expected answers, and so is LISTEN.
"""

from itinerary.stores.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
