"""Ending sessions whose process froze in the middle of a pipeline.

    a process    put ─► put ─► (frozen)                         put ─► sync ─► (frozen)
    the server   has done both, waits for more                  has answered, and waits
                 considers the session busy, without a limit    rolls back after `idle_timeout`

The limit of the server counts from its last answer to a synchronisation (see `transaction`). Between two statements
without a wait there is none. So a process that freezes exactly there keeps its locks, and all others wait. The moment
is short, and few freezes hit it. Other sessions can recognise it: no other session of ours is `active` and waits for
its client. Work that has waited in vain for long enough ends such sessions, if they hold locks in this schema and
belong to the same user. The frozen process later finds its connection closed, and repeats its work.

A frozen *backend* (SIGSTOP, a debugger, an unresponsive disk) cannot be ended from here: the signal of the server stays
pending. Then the work fails after the patience of the store and is repeated, and the log names the session that holds
the locks (`holders`). Only the administrator of the server machine can continue or kill that process.
"""
# ruff: noqa: S608 - only constants of this module are put together; values are parameters

from __future__ import annotations

from typing import Any, Final

import msgspec
import psycopg

__all__ = ["LockHolder", "end_frozen", "holders"]

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


class LockHolder(msgspec.Struct, frozen=True):
    """A session whose transaction has held locks on our tables for long."""

    pid: int
    program: str
    client: str
    state: str
    """The state according to the server: `active`, `idle in transaction`. A frozen session keeps its last state."""
    waits_for: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"process {self.pid} of the server ({self.program} from {self.client}, {self.state}, waits for"
            f" {self.waits_for}) has been in a transaction for {self.seconds:.0f} s"
        )


def end_frozen(connection: psycopg.Connection[Any], schema: str, idle_for: float) -> int:
    """End the sessions that have waited for their clients this many seconds in the middle of a pipeline.

    Returns:
        The number of ended sessions.
    """
    ended = connection.execute(_END, {"schema": schema, "idle_for": idle_for}).fetchall()
    return len(ended)


def holders(connection: psycopg.Connection[Any], schema: str, idle_for: float) -> list[LockHolder]:
    """Return the sessions that have held locks on our tables for longer than this, oldest first."""
    found = connection.execute(_HELD, {"schema": schema, "idle_for": idle_for}).fetchall()
    return [
        LockHolder(pid, name or "unnamed", client, state or "unknown", *rest)
        for pid, name, client, state, *rest in found
    ]
