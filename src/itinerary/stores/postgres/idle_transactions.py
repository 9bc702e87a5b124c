"""Ending what a frozen process left in the middle of a pipeline.

    a process    put ─► put ─► (frozen)                         put ─► sync ─► (frozen)
    the server   has done both, waits for more                  has answered, and waits
                 takes the session for busy, for ever           undoes it after `idle_timeout`

The server's own limit counts from its last answer to a synchronisation (see `transaction`). Between two statements that
nobody waits for there is none, so a process that is frozen just there keeps its locks, and everybody else waits. It is
a short moment, and one of many freezes meets it. From outside it can be told apart: nothing else of ours is `active`
and waits for its client. Whoever has waited in vain for long enough ends such sessions, if they hold anything of this
schema and are of the same user; and who wakes up finds its connection gone, and does its work again.

A *backend* that is frozen (SIGSTOP, a debugger, a disk that does not answer) cannot be ended from here: the server's
signal stays pending. Then the work fails after the store's patience, is repeated, and the log says which session holds
the locks (`holders`). Only the administrator of the server's machine can continue or kill that process.
"""
# ruff: noqa: S608 - what is put together are parts of statements that stand here; values are parameters

from __future__ import annotations

from typing import Any, Final

import msgspec
import psycopg

__all__ = ["Holder", "end_frozen", "holders"]

_HOLDERS_MAX: Final = 5
_OURS: Final = """
EXISTS (SELECT FROM pg_locks AS held
          JOIN pg_class ON pg_class.oid = held.relation
          JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
         WHERE held.pid = session.pid AND held.granted AND pg_namespace.nspname = %(schema)s)
"""
_END: Final = f"""
SELECT pg_terminate_backend(session.pid)
  FROM pg_stat_activity AS session
 WHERE session.datname = current_database() AND session.usename = current_user AND session.pid <> pg_backend_pid()
   AND session.state = 'active' AND session.wait_event_type = 'Client' AND session.wait_event = 'ClientRead'
   AND session.state_change < clock_timestamp() - make_interval(secs => %(idle_for)s)
   AND {_OURS}
"""
_HELD: Final = f"""
SELECT session.pid, session.application_name, coalesce(host(session.client_addr), 'unix socket'), session.state,
       coalesce(session.wait_event_type || '/' || session.wait_event, 'none'),
       extract(epoch FROM clock_timestamp() - session.xact_start)::float8
  FROM pg_stat_activity AS session
 WHERE session.datname = current_database() AND session.pid <> pg_backend_pid()
   AND session.xact_start < clock_timestamp() - make_interval(secs => %(idle_for)s)
   AND {_OURS}
   AND EXISTS (SELECT FROM pg_locks AS held
                WHERE held.pid = session.pid AND held.granted
                  AND (held.locktype = 'advisory' OR held.locktype = 'relation' AND held.mode <> 'AccessShareLock'))
 ORDER BY session.xact_start LIMIT {_HOLDERS_MAX}
"""


class Holder(msgspec.Struct, frozen=True):
    """A session whose transaction holds locks on our tables for long."""

    pid: int
    program: str
    client: str
    state: str
    """What the server says that it does: `active`, `idle in transaction`; a frozen one is what it was when it froze."""
    waits_for: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"process {self.pid} of the server ({self.program} from {self.client}, {self.state}, waits for"
            f" {self.waits_for}) has been in a transaction for {self.seconds:.0f} s"
        )


def end_frozen(connection: psycopg.Connection[Any], schema: str, idle_for: float) -> int:
    """End the sessions that have waited for their clients for so many seconds in the middle of a pipeline. Returns how
    many there were."""
    ended = connection.execute(_END, {"schema": schema, "idle_for": idle_for}).fetchall()
    return len(ended)


def holders(connection: psycopg.Connection[Any], schema: str, idle_for: float) -> list[Holder]:
    """The sessions that have held locks on our tables for longer than this, the oldest first."""
    found = connection.execute(_HELD, {"schema": schema, "idle_for": idle_for}).fetchall()
    return [
        Holder(pid, name or "unnamed", client, state or "unknown", *rest) for pid, name, client, state, *rest in found
    ]
