"""Ending what a frozen process left in the middle of a pipeline.

    a process    put ─► put ─► (frozen)                         put ─► sync ─► (frozen)
    the server   has done both, waits for more                  has answered, and waits
                 takes the session for busy, for ever           undoes it after `idle_timeout`

The server's own limit counts from its last answer to a synchronisation (see `transaction`). Between two statements that
nobody waits for there is none, so a process that is frozen just there keeps its locks, and everybody else waits. It is
a short moment, and one of many freezes meets it. From outside it can be told apart: nothing else of ours is `active`
and waits for its client. Whoever has waited in vain for long enough ends such sessions, if they hold anything of this
schema and are of the same user; and who wakes up finds its connection gone, and does its work again.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg

__all__ = ["end_frozen"]

_END: Final = """
SELECT pg_terminate_backend(session.pid)
  FROM pg_stat_activity AS session
 WHERE session.datname = current_database() AND session.usename = current_user AND session.pid <> pg_backend_pid()
   AND session.state = 'active' AND session.wait_event_type = 'Client' AND session.wait_event = 'ClientRead'
   AND session.state_change < clock_timestamp() - make_interval(secs => %(idle_for)s)
   AND EXISTS (SELECT FROM pg_locks AS held
                 JOIN pg_class ON pg_class.oid = held.relation
                 JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
                WHERE held.pid = session.pid AND held.granted AND pg_namespace.nspname = %(schema)s)
"""


def end_frozen(connection: psycopg.Connection[Any], schema: str, idle_for: float) -> int:
    """End the sessions that have waited for their clients for so many seconds in the middle of a pipeline. Returns how
    many there were."""
    ended = connection.execute(_END, {"schema": schema, "idle_for": idle_for}).fetchall()
    return len(ended)
