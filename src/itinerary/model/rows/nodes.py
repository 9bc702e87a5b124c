"""Rows of nodes: their heartbeats, mail and statistics. Also the notifications."""

from __future__ import annotations

from itinerary.model.rows.keys import NodeNumber, Ref, Row

__all__ = ["MailRow", "NodeRow", "NotificationRow", "StatisticsRow"]


class NodeRow(Row, frozen=True):
    """The row of one start of one node."""

    number: NodeNumber
    incarnation: str
    name: str
    about: str
    """Facts as JSON: host, process, version, jobs with missing code, jumps of its clock, outages of the store."""
    joined_at: int
    counter: int = 0
    """The heartbeat counter, which rises with each heartbeat. Other nodes compare it and not clocks (protocol rule
    16)."""
    beat_at: int = 0
    left_at: int | None = None


class MailRow(Row, frozen=True):
    """An occurrence that its node should look at, because another caller has cancelled or adjusted it."""

    node: NodeNumber
    ref: Ref


class StatisticsRow(Row, frozen=True):
    """The statistics of a node's loop in one interval (L10)."""

    node: NodeNumber
    at: int
    iterations: int
    longest_us: int
    total_us: int
    active: int
    index_size: int
    inbox_depth: int
    messages: int


class NotificationRow(Row, frozen=True):
    """A notification: the count of events of a topic."""

    topic: str
    count: int
