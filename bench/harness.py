"""What the benches share: a result and how it is shown, a stopwatch, a process of one's own."""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

__all__ = ["Result", "in_own_process", "shown", "stopwatch", "timed"]


@dataclass(frozen=True, slots=True)
class Result:
    """One measure of one bench, beside one peer or none."""

    bench: str
    measure: str
    ours: float
    unit: str
    peer: str | None = None
    theirs: float | None = None
    more_is_better: bool = False
    differing: int | None = None
    """In how many cases the peer's answer was not ours; None where answers are not compared."""

    @property
    def ratio(self) -> float | None:
        """How many times better ours is."""
        if self.theirs is None or not self.ours or not self.theirs or not math.isfinite(self.ours + self.theirs):
            return None
        return self.ours / self.theirs if self.more_is_better else self.theirs / self.ours

    def to_json(self) -> str:
        """One line of JSON."""
        data: dict[str, Any] = {
            "bench": self.bench,
            "measure": self.measure,
            "ours": _rounded(self.ours),
            "peer": self.peer,
            "theirs": _rounded(self.theirs),
            "ratio": _rounded(self.ratio),
            "unit": self.unit,
        }
        if self.differing is not None:
            data["differing"] = self.differing
        return json.dumps(data)

    @classmethod
    def from_json(cls, line: str) -> Result:
        """What `to_json` wrote; ValueError if it is anything else."""
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError("is no JSON object")  # noqa: TRY004 - whoever reads a file catches one kind of error
        data = {"differing": None, **data}
        for key, kinds, what in _KEYS:
            if key not in data:
                raise ValueError(f"has no {key}")
            if not isinstance(data[key], kinds) or isinstance(data[key], bool):
                raise ValueError(f"{key} is {json.dumps(data[key])[:40]}; it must be {what}")  # noqa: TRY004 - as above
        ours, theirs, ratio = data["ours"], data["theirs"], data["ratio"]
        more = bool(ratio and ours and theirs) and math.isclose(ours / theirs, ratio, rel_tol=0.03)
        return cls(
            bench=data["bench"],
            measure=data["measure"],
            ours=math.nan if ours is None else float(ours),
            unit=data["unit"],
            peer=data["peer"],
            theirs=theirs,
            more_is_better=more,
            differing=data["differing"],
        )

    def to_row(self) -> tuple[str, ...]:
        """One line of a table."""
        return (
            self.bench,
            self.measure,
            shown(self.ours, self.unit),
            self.peer or "",
            "" if self.theirs is None else shown(self.theirs, self.unit),
            "" if self.ratio is None else f"{_figure(self.ratio)}×",
            "" if self.differing is None else str(self.differing),
        )


_NUMBER = (int, float)
_KEYS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("bench", (str,), "a text"),
    ("measure", (str,), "a text"),
    ("ours", (*_NUMBER, type(None)), "a number or null"),
    ("peer", (str, type(None)), "a text or null"),
    ("theirs", (*_NUMBER, type(None)), "a number or null"),
    ("ratio", (*_NUMBER, type(None)), "a number or null"),
    ("unit", (str,), "a text"),
    ("differing", (int, type(None)), "a whole number"),
)


def shown(value: float | None, unit: str) -> str:
    """A value for people: three digits, and a dash if nothing was measured."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{_figure(value)} {unit}".rstrip()


def _figure(value: float) -> str:
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded == round(rounded) else f"{rounded:,}"


def _rounded(value: float | None) -> float | None:
    """Three digits; null in JSON, which has no other number that is none."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.3g}")


def stopwatch(work: Callable[[], object]) -> float:
    """How many seconds one call takes."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def timed(work: Callable[[], object], times: int) -> float:
    """The median of several calls in seconds, after one to warm up, with the garbage collected before."""
    work()
    gc.collect()
    return median(stopwatch(work) for _ in range(times))


def in_own_process(module: str, *arguments: object) -> str:
    """The last line that a module of ours prints, run in a process of its own: what it uses is its own. What it
    complains of is seen; if it fails, so does the bench."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - ourselves
    return done.stdout.splitlines()[-1]
