"""The alerts of a node, as its app starts them: with its store, its clock and its settings."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from itinerary.app.logs import SecretsHidden
from itinerary.app.sources import Configuration
from itinerary.executors.references import Secret
from itinerary.observe.alerts import Alerts
from itinerary.observe.webhooks import Webhook, receiver_of
from itinerary.ports import Store
from itinerary.runtime.node import Node

__all__ = ["alerts_of"]


def alerts_of(configuration: Configuration, store: Store, node: Node, log: Any) -> Alerts | None:
    """The alerts of a node that has started; None if nobody wants to be told."""
    if not configuration.alert_urls:
        return None
    assert node.number is not None, "it has started"
    name = configuration.alert_secret
    return Alerts(
        store,
        node.number,
        configuration.name,
        node.clock,
        timeline=lambda: node.builder.timeline,
        settings=configuration.settings,
        defaults=configuration.defaults,
        webhook=Webhook(
            allowed_hosts=configuration.allow_hosts,
            signing=None if name is None else Secret(name),
        ),
        receivers=[receiver_of(url) for url in configuration.alert_urls],
        hide=SecretsHidden(os.environ).hidden,
        log=log,
        elsewhere=asyncio.to_thread,
    )
