"""Incidents: which job is in trouble, folded from the log of what nodes have seen (U12).

    trouble seen ──► nothing open of that kind? ──► an incident, and one alert        failed, missed, late
                └─► already open: it is known, and nobody is told again
    a success after it ──► the job's incidents are closed, and one alert              recovered

The log is a stream in the store, under its own name, and one cause makes one event. So whichever node sees what, and
however often, an incident is opened once and closed once; everybody who reads the log comes to the same. What has been
delivered to whom stands in it, too: whoever delivers next goes on from there.
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
"""The log; it has one partition, of the same name."""
WHY_MAX: Final = 2_000
_SEEN: Final = "TroubleSeen"
_DELIVERED: Final = "AlertDelivered"
_GIVEN_UP_MAX: Final = 1_000


class AlertKind(StrEnum):
    """What people are told of."""

    FAILED = "failed"
    MISSED = "missed"
    """A run does not happen: its instant was marked as missed."""
    LATE = "late"
    """A run has not started in time, and is still to start; or it started late."""
    RECOVERED = "recovered"
    DIED = "died"
    """A node was killed, or its machine was lost. Its `job` is `(node NAME)`. Nothing closes it: it is told once."""
    TEST = "test"
    """Sent by `itinerary alert --test`. It is kept nowhere."""
    BEHIND = "behind"
    """A node cannot keep up with what is due. Its `job` is `(node NAME)`, since all jobs are concerned."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """What people are told: the body of a webhook is this, as JSON."""

    alert: str
    """Its id, the same however often it is sent."""
    kind: AlertKind
    job: str
    run: str
    """How people know the occurrence: `etl:1767225600`."""
    occurrence: str
    scheduled_at: str
    at: str
    """When it was seen, by the store's clock."""
    outcome: str | None
    why: str
    node: str
    """Who saw it."""
    incident: str
    """The id of the alert that opened the incident; of a recovery, the first of those that it closes."""
    at_microseconds: int
    output: str | None = None
    """The last lines that the task wrote which failed."""

    def body(self) -> bytes:
        """As it is sent."""
        table = msgspec.to_builtins(self)
        del table["at_microseconds"]
        return msgspec.json.encode(table)


class Delivered(msgspec.Struct, frozen=True):
    """An alert that has reached one receiver, or that nobody tries any more to bring there."""

    alert: str
    receiver: str
    is_given_up: bool = False


def seen(alert: Alert) -> NewEvent:
    """The event that tells of it. One occurrence has one of each kind."""
    output = None if alert.output is None else clean_text(alert.output, WHY_MAX)
    alert = msgspec.structs.replace(alert, why=clean_text(alert.why, WHY_MAX), output=output)
    return NewEvent(kind=_SEEN, record=alert.job, cause=alert.alert, data=msgspec.json.encode(alert).decode())


def delivery(delivered: Delivered, job: str) -> NewEvent:
    """The event that says that an alert need not be brought there any more."""
    cause = f"{delivered.alert} to {delivered.receiver}"
    return NewEvent(kind=_DELIVERED, record=job, cause=cause, data=msgspec.json.encode(delivered).decode())


class Incidents:
    """What the log says, up to one event."""

    def __init__(self) -> None:
        self.sequence = 0
        """The last event that is in here."""
        self.open: dict[tuple[str, AlertKind], Alert] = {}
        """What is wrong, by job and kind."""
        self.alerts: dict[str, Alert] = {}
        """What people are to be told, in order, as far as it is not known to have arrived everywhere."""
        self.closed: dict[str, int] = {}
        """When the last success of a job was that closed an incident."""
        self.given_up: list[Alert] = []
        """Those that some receiver will not be sent any more, the last ones."""
        self._done: dict[str, set[str]] = {}
        """Who has been told of which."""

    def take(self, events: Sequence[EventRow], receivers: Sequence[str] = ()) -> int:
        """More of the log. Alerts that have reached all of these receivers are forgotten. Returns how many events
        nobody can read: anybody may append to a log."""
        unreadable = 0
        for event in events:
            if event.sequence <= self.sequence:
                continue  # two have read the same page
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
        """What a receiver has not been told, the oldest first."""
        return [alert for alert in self.alerts.values() if receiver not in self._done.get(alert.alert, ())]
