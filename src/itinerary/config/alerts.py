"""The alerts of a node, with its store, clock and settings; and the tests of receivers for the command line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from typing import Any
from uuid import uuid4

import msgspec

from itinerary.config.configuration import Configuration
from itinerary.config.log_setup import SecretsHidden
from itinerary.executors.secrets import Secret
from itinerary.observe.alerts import Alerts
from itinerary.observe.incidents import Alert, AlertKind
from itinerary.observe.webhooks import DeliveryFailed, Receiver, Webhook, receiver_of
from itinerary.ports import Store
from itinerary.runtime.node import Node
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import shown_instant

__all__ = ["ReceiverTest", "alerts_of", "reachable", "send_test"]


class ReceiverTest(msgspec.Struct, frozen=True):
    """The test result of a receiver."""

    receiver: int
    """The position in `alert_urls`, from 1."""
    why: str | None
    """Why an alert does not reach the receiver; None if it does."""

    @property
    def sentence(self) -> str:
        """The result in words."""
        name = f"receiver {self.receiver} of alert_urls"
        return f"{name} can be reached" if self.why is None else f"alerts do not reach {name}: {self.why}"


async def reachable(configuration: Configuration) -> list[ReceiverTest]:
    """Try to connect to each receiver of alerts. Nothing is sent."""
    webhook = _webhook(configuration)
    return [await _tried(number, webhook.check(one)) for number, one in enumerate(_receivers(configuration), 1)]


async def send_test(configuration: Configuration, now: int) -> list[ReceiverTest]:
    """Send a test alert to each receiver. `now` is in microseconds since the epoch."""
    webhook = _webhook(configuration)
    name = f"test:{uuid4()}"
    alert = Alert(
        alert=name,
        kind=AlertKind.TEST,
        job="(test)",
        run="",
        occurrence="",
        scheduled_at=shown_instant(now),
        at=shown_instant(now),
        outcome=None,
        why="this is a test: `itinerary alert --test` has sent it, and nothing is wrong",
        node=configuration.name,
        incident=name,
        at_microseconds=now,
    )
    return [
        await _tried(number, webhook.post(one, name, alert.body(), now // SECOND))
        for number, one in enumerate(_receivers(configuration), 1)
    ]


async def _tried(number: int, call: Awaitable[object]) -> ReceiverTest:
    try:
        await call
    except DeliveryFailed as error:
        return ReceiverTest(number, SecretsHidden(os.environ).hidden(str(error)))
    return ReceiverTest(number, None)


def _webhook(configuration: Configuration) -> Webhook:
    name = configuration.alert_secret
    return Webhook(allowed_hosts=configuration.allow_hosts, signing=None if name is None else Secret(name))


def _receivers(configuration: Configuration) -> list[Receiver]:
    return [receiver_of(url) for url in configuration.alert_urls]


def alerts_of(configuration: Configuration, store: Store, node: Node, log: Any) -> Alerts | None:
    """Return the alerts of a started node; None if no receiver is set."""
    if not configuration.alert_urls:
        return None
    assert node.number is not None, "it has started"
    return Alerts(
        store,
        node.number,
        configuration.name,
        node.clock,
        timeline=lambda: node.builder.timeline,
        settings=configuration.settings,
        webhook=_webhook(configuration),
        receivers=_receivers(configuration),
        hide=SecretsHidden(os.environ).hidden,
        log=log,
        elsewhere=asyncio.to_thread,
    )
