"""Frozen configurations (X5), kept once however many occurrences were started with them.

They are written in a transaction of their own before the start that names them, and stay: one that nobody came to use
does no harm. Those of single occurrences with overrides are kept with the occurrence instead.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from itinerary.model.rows import ConfigRow
from itinerary.stores.tables import CONFIGS
from itinerary.stores.transaction import Transaction

__all__ = ["number_configs"]


def number_configs(tx: Transaction, bodies: Collection[str]) -> dict[str, int]:
    """The numbers of configurations, given out now or before."""
    tx.gate()
    digests = {sha256(body.encode()).hexdigest(): body for body in bodies}
    known = tx.named(CONFIGS, [(digest,) for digest in digests])
    created = tx.add(
        CONFIGS, [ConfigRow(0, digest, body) for digest, body in digests.items() if (digest,) not in known]
    )
    if len(known) + len(created) < len(digests):  # somebody else was writing the same ones
        known = tx.named(CONFIGS, [(digest,) for digest in digests])
    return {digests[row.digest]: row.number for row in (*known.values(), *created)}
