"""Frozen configurations (X5), stored once for all occurrences that start with them.

A configuration is written in its own transaction before the start that uses it, and stays. An unused one does no harm.
An occurrence with overrides stores its own configuration.
"""

from __future__ import annotations

from collections.abc import Collection
from hashlib import sha256

from itinerary.model.rows import ConfigRow
from itinerary.stores.tables import CONFIGS
from itinerary.stores.transaction import Transaction

__all__ = ["number_configs"]


def number_configs(tx: Transaction, bodies: Collection[str]) -> dict[str, int]:
    """Return the numbers of these configurations. Unknown ones get a new number."""
    tx.gate()
    digests = {sha256(body.encode()).hexdigest(): body for body in bodies}
    known = tx.named(CONFIGS, [(digest,) for digest in digests])
    created = tx.add(
        CONFIGS, [ConfigRow(0, digest, body) for digest, body in digests.items() if (digest,) not in known]
    )
    if len(known) + len(created) < len(digests):  # another transaction wrote the same ones
        known = tx.named(CONFIGS, [(digest,) for digest in digests])
    return {digests[row.digest]: row.number for row in (*known.values(), *created)}
