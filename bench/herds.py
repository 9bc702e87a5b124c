"""A herd: many no-op occurrences of as many jobs, all due in the same second; and what came of it, whoever ran it.

Lateness is measured where the work is: in the task itself, by the machine's clock. `finished_at` is when the last of it
that did finish was durably over. A herd is watched for a limited time. What has not run by then is missed, what has not
finished by then is unfinished, and the rate is over what did finish: so a peer that would take minutes is compared by
what it does, and the table says how much it left undone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.harness import Result

__all__ = ["Herd", "results"]


@dataclass(frozen=True, slots=True)
class Herd:
    """What became of one herd."""

    count: int
    due_at: float
    """When all of it was due, in seconds since the epoch."""
    ran: Sequence[tuple[str, float]]
    """Which job ran, and when its task began."""
    finished: int
    """How many runs were durably over when it was no longer watched."""
    finished_at: float
    """When the last of those was."""
    cpu: float
    """Seconds of CPU of the process that ran it, with what it did ahead of its instant."""

    def to_json(self) -> str:
        """As text, from one process to another."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Herd:
        """And back."""
        return cls(**json.loads(text))

    @property
    def per_second(self) -> float:
        """From due to durably finished, of what did finish."""
        return self.finished / max(self.finished_at - self.due_at, 1e-6)

    def lateness(self, percentile: float) -> float:
        """Start lateness in milliseconds, of what did run; not a number if nothing did."""
        late = [at - self.due_at for _, at in self.ran]
        return float(np.percentile(late, percentile)) * 1_000 if late else float("nan")

    @property
    def missed(self) -> int:
        """How many jobs did not run."""
        return self.count - len({job for job, _ in self.ran})

    @property
    def doubled(self) -> int:
        """How many ran more than once."""
        return sum(times > 1 for times in Counter(job for job, _ in self.ran).values())

    @property
    def unfinished(self) -> int:
        """How many were not durably over when the time was."""
        return max(self.count - self.finished, 0)

    @property
    def cpu_of_1000(self) -> float:
        """Seconds of CPU for a thousand that did finish; not a number if none did."""
        return self.cpu / self.finished * 1_000 if self.finished else float("nan")


def results(bench: str, store: str, ours: Herd, peers: Mapping[str, Herd]) -> Iterator[Result]:
    """Ours beside each peer; alone if there is none. A peer that had fewer jobs says so in its name."""
    beside: list[tuple[str | None, Herd | None]] = [(_titled(peer, herd, ours), herd) for peer, herd in peers.items()]
    for peer, theirs in beside or [(None, None)]:
        for measure, unit, more, of in MEASURES:
            yield Result(
                bench,
                f"{store}_{ours.count}_{measure}",
                of(ours),
                unit,
                peer,
                None if theirs is None else of(theirs),
                more_is_better=more,
            )


def _titled(peer: str, theirs: Herd, ours: Herd) -> str:
    return peer if theirs.count == ours.count else f"{peer} ({theirs.count:,})"


MEASURES: tuple[tuple[str, str, bool, Callable[[Herd], float]], ...] = (
    ("per_s", "/s", True, lambda herd: herd.per_second),
    ("p50_ms", "ms", False, lambda herd: herd.lateness(50)),
    ("p99_ms", "ms", False, lambda herd: herd.lateness(99)),
    ("max_ms", "ms", False, lambda herd: herd.lateness(100)),
    ("missed", "jobs", False, lambda herd: float(herd.missed)),
    ("doubled", "jobs", False, lambda herd: float(herd.doubled)),
    ("unfinished", "jobs", False, lambda herd: float(herd.unfinished)),
    ("cpu_s_per_1000", "s", False, lambda herd: herd.cpu_of_1000),
)
"""What is said of a herd: its name, its unit, whether more is better, and how it is found."""
