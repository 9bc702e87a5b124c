"""The naive forms: how each step would be written at first, and what each of them gets wrong.

They have tables of their own, with no more columns than the story needs. Each is what a careful person writes who
thinks of one session at a time. The tests beside this show, with two sessions, what happens then, and that the same
cannot happen to ours. Numbers in the comments are those of the protocol's rules.
"""

from __future__ import annotations

from typing import Final

from tests.integration.protocol.sessions import Plain

__all__ = ["set_up"]

_TABLES: Final = """
CREATE TABLE versions (number int PRIMARY KEY, effective_from int NOT NULL);
CREATE TABLE watermark (value int NOT NULL);
INSERT INTO watermark VALUES (100);
CREATE TABLE occurrences (
    instant int PRIMARY KEY, owner text, fence int NOT NULL DEFAULT 1, status text NOT NULL DEFAULT 'prerun'
);
CREATE TABLE slots (job text PRIMARY KEY, occurrence int NOT NULL);
CREATE TABLE limits (name text PRIMARY KEY);
INSERT INTO limits VALUES ('api');
CREATE TABLE holders (name text, number int, occurrence int NOT NULL, UNIQUE (name, number));
CREATE TABLE partitions (name text PRIMARY KEY, holder text, fence int NOT NULL);
INSERT INTO partitions VALUES ('hotel', 'first', 1);
CREATE TABLE events (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL);
"""


def set_up(plain: Plain) -> None:
    """Create the tables."""
    plain.do(_TABLES)


# -- the gate --------------------------------------------------------------------------------------------------------

GATE_AND_READ: Final = (
    "SELECT number FROM (SELECT pg_advisory_xact_lock_shared(1)) AS gate LEFT JOIN versions ON true"
    " WHERE number IS NOT NULL"
)
"""4: the gate and what is to be read behind it, in one statement: it sees what was there before it waited."""

# -- claim and start -------------------------------------------------------------------------------------------------

CLAIM: Final = """
WITH created AS (
    INSERT INTO occurrences (instant, owner) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING instant
)
SELECT instant FROM created UNION SELECT instant FROM occurrences WHERE instant = %s AND owner = %s
"""
"""6: create it, and tell whether it is mine, in one statement."""

START: Final = """
WITH slot AS (
    INSERT INTO slots (job, occurrence)
    SELECT 'backup', instant FROM occurrences WHERE instant = %s AND owner = %s AND fence = %s AND status = 'prerun'
    ON CONFLICT DO NOTHING RETURNING occurrence
)
UPDATE occurrences AS it SET status = 'running' FROM slot
WHERE it.instant = slot.occurrence AND it.owner = %s AND it.fence = %s AND it.status = 'prerun'
RETURNING it.instant
"""
"""7: take the slot, and begin, in one statement."""

TAKE_SLOT: Final = "INSERT INTO slots VALUES ('backup', %s) ON CONFLICT DO NOTHING RETURNING occurrence"
SKIP: Final = "UPDATE occurrences SET status = 'skipped' WHERE instant = %s AND owner = %s AND fence = %s"
"""7: what a start does that finds the slot taken."""

TAKE_OVER: Final = "UPDATE occurrences SET owner = %s, fence = fence + 1 WHERE instant = %s AND status = 'prerun'"

END: Final = "UPDATE occurrences SET status = 'completed' WHERE instant = %s AND owner = %s AND status = 'running'"
FREE_SLOT_BY_NAME: Final = "DELETE FROM slots WHERE job = 'backup'"
"""9: whoever ends frees the job's slot."""

# -- locks, limits, lines --------------------------------------------------------------------------------------------

LOCK_AS_ASKED: Final = """
SELECT locked.instant FROM unnest(%s::int[]) AS asked (instant)
CROSS JOIN LATERAL (SELECT o.instant FROM occurrences AS o WHERE o.instant = asked.instant FOR UPDATE) AS locked
"""
"""11: a batch, locked in the order in which it came."""

LOCK_AND_COUNT: Final = (
    "SELECT (SELECT count(*) FROM holders WHERE name = 'api') FROM limits WHERE name = 'api' FOR UPDATE"
)
"""13: lock the limit and count its holders, in one statement."""
HOLD: Final = "INSERT INTO holders VALUES ('api', %s, %s) ON CONFLICT DO NOTHING RETURNING number"
"""13: numbered shares: a limit of three is the numbers 1, 2 and 3."""

ENQUEUE: Final = "UPDATE occurrences SET status = 'queued', owner = NULL WHERE instant = %s"
OLDEST_IN_LINE: Final = "SELECT min(instant) FROM occurrences WHERE status = 'queued'"
"""14: the slot is looked at, and not locked, by who goes to stand in line."""

# -- records ---------------------------------------------------------------------------------------------------------

APPEND: Final = """
INSERT INTO events (text) SELECT %s
WHERE EXISTS (SELECT FROM partitions WHERE name = 'hotel' AND holder = %s AND fence = %s)
RETURNING number
"""
"""29: the fence, checked in the insert's WHERE; and numbers from a serial column."""
