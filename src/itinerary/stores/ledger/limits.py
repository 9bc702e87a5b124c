"""Limits that all nodes share (X11): a maximum number at a time, counted under a lock (protocol rule 13).

The row of the limit is locked first, and the held shares are counted in a later statement. Numbered shares would
miscount when a limit is lowered. A stored count would drift, and could not be checked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from itinerary.model.rows import LimitRow
from itinerary.model.writes import Limit
from itinerary.stores.ledger.overlap_queue import LINE_MAX
from itinerary.stores.tables import LIMITS, SHARES
from itinerary.stores.transaction import Transaction

__all__ = ["held_shares", "lacking_limit"]


def held_shares(tx: Transaction, names: Collection[str]) -> dict[str, int]:
    """Lock these limits, and return the number of held shares of each. The caller may then take more."""
    if not names:
        return {}
    keys = [(name,) for name in sorted(names)]
    if len(tx.get(LIMITS, keys)) < len(keys):
        tx.add(LIMITS, [LimitRow(name) for (name,) in keys])
    tx.lock(LIMITS, keys)
    return {name: len(tx.scan(SHARES, (name,), limit=LINE_MAX)) for (name,) in keys}


def lacking_limit(limits: Collection[Limit], held: Mapping[str, int]) -> str | None:
    """Return the first of these limits that has no share left."""
    return next((limit.name for limit in limits if held[limit.name] >= limit.shares), None)
