"""Rows of nodes: that they are there, what they should look at, what they did; and what others should hear of."""

from __future__ import annotations

from itinerary.model.rows.keys import NodeNumber, Ref, Row

__all__ = ["MailRow", "NodeRow", "SignalRow", "StatisticsRow"]


class NodeRow(Row, frozen=True):
    """One start of one node."""

    number: NodeNumber
    incarnation: str
    name: str
    about: str
    """Host, process, version, the jobs whose code it lacks, how its time has jumped, when the store was away: JSON."""
    joined_at: int
    counter: int = 0
    """Goes up with each heartbeat; nobody compares its clock (protocol rule 16)."""
    beat_at: int = 0
    left_at: int | None = None


class MailRow(Row, frozen=True):
    """Something that a node should look at: an occurrence of its own that somebody has cancelled or adjusted."""

    node: NodeNumber
    ref: Ref


class StatisticsRow(Row, frozen=True):
    """What a node's loop did in one interval (L10)."""

    node: NodeNumber
    at: int
    iterations: int
    longest_us: int
    total_us: int
    active: int
    index_size: int
    inbox_depth: int
    messages: int


class SignalRow(Row, frozen=True):
    """How often something has happened that others should hear of."""

    topic: str
    count: int
