"""A herd: many no-op occurrences of as many jobs, all due in the same second; and what came of it, whoever ran it.

Lateness is measured where the work is: in the task itself, by the machine's clock. `finished_at` is when all of it was
durably over.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
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
    finished_at: float
    cpu: float
    """Seconds of CPU, of the process that ran it, from just before its instant on."""

    def to_json(self) -> str:
        """As text, from one process to another."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Herd:
        """And back."""
        return cls(**json.loads(text))

    @property
    def per_second(self) -> float:
        """From due to durably finished."""
        return len(self.ran) / max(self.finished_at - self.due_at, 1e-6)

    def lateness(self, percentile: float) -> float:
        """Start lateness in milliseconds."""
        late = [at - self.due_at for _, at in self.ran]
        return float(np.percentile(late, percentile)) * 1_000 if late else float("nan")

    @property
    def missed(self) -> int:
        """How many jobs never ran."""
        return self.count - len({job for job, _ in self.ran})

    @property
    def doubled(self) -> int:
        """How many ran more than once."""
        return sum(times > 1 for times in Counter(job for job, _ in self.ran).values())


def results(store: str, ours: Herd, peers: dict[str, Herd]) -> Iterator[Result]:
    """Ours beside each peer; alone if there is none."""
    beside: list[tuple[str | None, Herd | None]] = [*peers.items()]
    for peer, theirs in beside or [(None, None)]:
        for measure, unit, more, of in _MEASURES:
            yield Result(
                "herd",
                f"{store}_{ours.count}_{measure}",
                of(ours),
                unit,
                peer,
                None if theirs is None else of(theirs),
                more_is_better=more,
            )


_MEASURES = (
    ("per_s", "/s", True, lambda herd: herd.per_second),
    ("p50_ms", "ms", False, lambda herd: herd.lateness(50)),
    ("p99_ms", "ms", False, lambda herd: herd.lateness(99)),
    ("max_ms", "ms", False, lambda herd: herd.lateness(100)),
    ("missed", "jobs", False, lambda herd: float(herd.missed)),
    ("doubled", "jobs", False, lambda herd: float(herd.doubled)),
    ("cpu_s_per_1000", "s", False, lambda herd: herd.cpu / herd.count * 1_000),
)
