"""Incidents: which jobs are in trouble, folded from the log of problems that nodes have seen (U12).

    problem seen ──► none of that kind open? ──► an incident, and one alert           failed, missed, late
                └─► already open: no further alert
    a success after it ──► close the job's incidents, and one alert                   recovered

The log is a stream in the store, under its own name, and each cause is one event. So an incident opens once and closes
once, however many nodes see it and however often. Every reader of the log computes the same result. The log also has
the deliveries to each receiver, so that the next sender continues from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from itinerary.errors import RecordError
from itinerary.model.codec import from_json
from itinerary.model.events import NewEvent
from itinerary.model.rows import EventRow
from itinerary.model.text import clean_text

__all__ = ["ALERTS_STREAM", "Alert", "AlertKind", "Delivered", "Incidents", "delivery", "seen"]

ALERTS_STREAM: Final = "itinerary.alerts"
"""The name of the log and of its only partition."""
WHY_MAX: Final = 2_000
_SEEN: Final = "TroubleSeen"
_DELIVERED: Final = "AlertDelivered"
_GIVEN_UP_MAX: Final = 1_000


class AlertKind(StrEnum):
    """The subject of an alert."""

    FAILED = "failed"
    MISSED = "missed"
    """A run does not happen: its instant was marked as missed."""
    LATE = "late"
    """A run has not started in time, and is still to start; or it started late."""
    RECOVERED = "recovered"
    DIED = "died"
    """A node was killed, or its machine was lost. `job` is `(node NAME)`. Sent once, without a recovery."""
    TEST = "test"
    """Sent by `itinerary alert --test`. Not stored."""
    BEHIND = "behind"
    """A node is behind. `job` is `(node NAME)`, since all jobs are concerned."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert. Its JSON is the body of a webhook."""

    alert: str
    """The id of the alert, the same for every delivery."""
    kind: AlertKind
    job: str
    run: str
    """The run id that people know: `etl:1767225600`."""
    occurrence: str
    scheduled_at: str
    at: str
    """The time at which the problem was seen, by the store's clock."""
    outcome: str | None
    why: str
    node: str
    """The node that saw the problem."""
    incident: str
    """The id of the alert that opened the incident; for a recovery, the first of those that it closes."""
    at_microseconds: int
    output: str | None = None
    """The last output lines of the failed task."""

    def body(self) -> bytes:
        """Return the body of the webhook."""
        table = msgspec.to_builtins(self)
        del table["at_microseconds"]
        return msgspec.json.encode(table)


class Delivered(msgspec.Struct, frozen=True):
    """An alert that has reached one receiver, or whose delivery there is given up."""

    alert: str
    receiver: str
    is_given_up: bool = False


def seen(alert: Alert) -> NewEvent:
    """Return the event that records a problem. An occurrence has one event of each kind."""
    output = None if alert.output is None else clean_text(alert.output, WHY_MAX)
    alert = msgspec.structs.replace(alert, why=clean_text(alert.why, WHY_MAX), output=output)
    return NewEvent(kind=_SEEN, record=alert.job, cause=alert.alert, data=msgspec.json.encode(alert).decode())


def delivery(delivered: Delivered, job: str) -> NewEvent:
    """Return the event that records that an alert is delivered or given up."""
    cause = f"{delivered.alert} to {delivered.receiver}"
    return NewEvent(kind=_DELIVERED, record=job, cause=cause, data=msgspec.json.encode(delivered).decode())


class Incidents:
    """The state of all incidents, up to one event of the log."""

    def __init__(self) -> None:
        self.sequence = 0
        """The number of the last event that was folded."""
        self.open: dict[tuple[str, AlertKind], Alert] = {}
        """The open incidents, by job and kind."""
        self.alerts: dict[str, Alert] = {}
        """The alerts in order, except those that have reached all receivers."""
        self.closed: dict[str, int] = {}
        """The time of the last success that closed an incident, by job."""
        self.given_up: list[Alert] = []
        """The most recent alerts that were given up for a receiver."""
        self._done: dict[str, set[str]] = {}
        """The receivers that each alert has reached."""

    def take(self, events: Sequence[EventRow], receivers: Sequence[str] = ()) -> int:
        """Fold more events of the log, and forget alerts that have reached all receivers.

        Args:
            events: The next events.
            receivers: The names of all receivers.

        Returns:
            The number of unreadable events. Any program may append to a log.
        """
        unreadable = 0
        for event in events:
            if event.sequence <= self.sequence:
                continue  # two callers have read the same page
            self.sequence = event.sequence
            try:
                self._take(event)
            except RecordError:
                unreadable += 1
        for alert in [one for one, done in self._done.items() if done.issuperset(receivers)]:
            del self._done[alert]
            self.alerts.pop(alert, None)
        return unreadable

    def _take(self, event: EventRow) -> None:
        if event.kind == _SEEN:
            self._take_trouble(from_json(Alert, event.data or ""))
        elif event.kind == _DELIVERED:
            told = from_json(Delivered, event.data or "")
            if told.alert in self.alerts:
                if told.is_given_up:
                    self.given_up = [*self.given_up[1 - _GIVEN_UP_MAX :], self.alerts[told.alert]]
                self._done.setdefault(told.alert, set()).add(told.receiver)

    def _take_trouble(self, alert: Alert) -> None:
        if alert.kind is AlertKind.RECOVERED:
            closed = [self.open.pop((alert.job, kind), None) for kind in AlertKind]
            self.closed[alert.job] = alert.at_microseconds
            if any(one is not None for one in closed):
                self.alerts[alert.alert] = alert
        elif alert.kind is AlertKind.DIED:
            self.alerts[alert.alert] = alert
        elif (alert.job, alert.kind) not in self.open:
            self.open[alert.job, alert.kind] = alert
            self.alerts[alert.alert] = alert

    def owed_to(self, receiver: str) -> list[Alert]:
        """Return the alerts that a receiver has not received, the oldest first."""
        return [alert for alert in self.alerts.values() if receiver not in self._done.get(alert.alert, ())]
