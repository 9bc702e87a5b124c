"""Checks of the store itself: schema, set-up, files, disk and clock."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from itinerary.model.queries import StoreStatusQuery
from itinerary.operations.doctor.findings import CheckResult, Severity
from itinerary.ports import Store
from itinerary.schedules.durations import SECOND, format_duration
from itinerary.stores.engine import SchemaSeen

__all__ = ["clock", "files", "schema", "set_up"]

_SKEW_MAX: Final = 2 * SECOND
"""The difference that a node treats as a clock jump (protocol rule 23)."""
_LITTLE: Final = 1 << 30
_TOO_LITTLE: Final = 100 << 20
"""Free bytes on the disk."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OWNER_ONLY: Final = 0o600


def schema(url: str, seen: SchemaSeen) -> list[CheckResult]:
    """Check that this program knows the schema of the store."""
    if seen.found is None:
        advice = "start a node on it, run `itinerary migrate`, or name another one with --store"
        return [CheckResult("store", Severity.WRONG, f"there is no store at {url}", advice)]
    if seen.found > seen.known:
        words = f"it has schema {seen.found}, and this program knows schemas up to {seen.known}"
        return [CheckResult("schema", Severity.WRONG, words, "upgrade Itinerary here")]
    if seen.found < seen.known:
        words = f"it has schema {seen.found}, and this program needs {seen.known}; nothing else was looked at"
        return [
            CheckResult("schema", Severity.WRONG, words, "run `itinerary migrate` when all nodes are of this version")
        ]
    return [CheckResult("store", Severity.WELL, f"{url} can be reached, and has schema {seen.found}")]


def set_up(warnings: Sequence[str]) -> list[CheckResult]:
    """Check that the set-up of the store supports our guarantees (protocol rule 27).

    The part of a warning after its semicolon is the advice.
    """
    found = []
    for warning in warnings:
        words, _, advice = warning.partition("; ")
        found.append(CheckResult("set-up", Severity.WRONG, words, advice or None))
    return found or [CheckResult("set-up", Severity.WELL, "what is committed is durable")]


def files(paths: Sequence[Path], allowed: int = 0o600) -> list[CheckResult]:
    """Check that only the owner, or the sharing group, can use the files, and that the disk has room."""
    there = [path for path in paths if path.exists()]
    if not there:
        return []
    found = []
    for path in there:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & _OTHERS & ~allowed:
            words = f"{path} can be used by others than its owner: its permissions are {mode:o}"
            found.append(CheckResult("files", Severity.WRONG, words, f"chmod {allowed:o} {path}"))
    if not found:
        whom = "their owner only" if allowed == _OWNER_ONLY else "their owner and the group that shares them"
        found.append(CheckResult("files", Severity.WELL, f"its files are for {whom}"))
    return [*found, _disk(there[0].parent)]


def _disk(directory: Path) -> CheckResult:
    free = shutil.disk_usage(directory).free
    words = f"{free / (1 << 30):,.1f} GiB are free on the disk of {directory}"
    if free >= _LITTLE:
        return CheckResult("disk", Severity.WELL, words)
    level = Severity.DOUBTFUL if free >= _TOO_LITTLE else Severity.WRONG
    return CheckResult("disk", level, words, "make room; `itinerary prune` removes old history")


async def clock(store: Store, nanoseconds: Callable[[], int]) -> CheckResult:
    """Compare the clocks of the store and of this machine, as precisely as the round trip allows."""
    before = nanoseconds() // 1_000
    there = (await store.read(StoreStatusQuery())).now
    after = nanoseconds() // 1_000
    apart = max(before - there, there - after, 0)
    if apart <= _SKEW_MAX:
        return CheckResult("clock", Severity.WELL, "this machine's clock and the store's agree")
    behind = "behind" if there > after else "ahead of"
    words = f"this machine's clock is {format_duration(apart // SECOND * SECOND)} {behind} the store's"
    advice = "have both set by NTP; the store's time decides when something is due, so nothing starts twice or early"
    return CheckResult("clock", Severity.DOUBTFUL, words, advice)
