"""Herds: 10,000 occurrences due in the same second, and 100, on each store; beside the peers that have recurring jobs.

Every scheduler gets its jobs beforehand, all of them recurring, with slots enough and a task that does nothing, in a
process of its own. It is left alone until their instant, and observed until the last of them is durably over, or until
its time is.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Result
from bench.herds import results
from bench.ours import our_herd
from bench.peers import peer_herds
from bench.places import DURABLE, place

__all__ = ["run"]

SIZES = (100, 10_000)
QUICK_SIZES = (100, 1_000)


def run(*, quick: bool) -> Iterator[Result]:
    """Each store and size, beside the peers that keep their jobs in the same kind of store."""
    for kind in ("sqlite",) if quick else DURABLE:
        for count in QUICK_SIZES if quick else SIZES:
            with place(kind) as url:
                ours = our_herd("herd", url, count)
            yield from results("herd", kind, ours, peer_herds("herd", kind, count))
