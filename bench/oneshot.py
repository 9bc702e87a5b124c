"""One-shot work: 10,000 jobs that run once, due in the same second, on PostgreSQL; beside the queues that can delay.

As with `herd`, all of them are there beforehand. Ours are jobs with a `once` schedule; theirs are tasks, jobs or
workflows that were put into a queue with a delay.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.harness import Result
from bench.herds import results
from bench.ours import our_herd
from bench.peers import peer_herds
from bench.places import place

__all__ = ["run"]


def run(*, quick: bool) -> Iterator[Result]:
    """On PostgreSQL."""
    count = 1_000 if quick else 10_000
    with place("postgres") as url:
        ours = our_herd("oneshot", url, count)
    yield from results("oneshot", "postgres", ours, peer_herds("oneshot", "postgres", count))
