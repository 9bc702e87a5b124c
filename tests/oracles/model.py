"""The model: a plain program that steps through UTC minute by minute and asks what a wall clock shows.

    UTC minute ──astimezone──▶ local time ──▶ matches the fields? ──▶ fires, or not, as the policies say
                                   │
                                   ├─ later than every local time so far? yes: new, no: a repeat (clocks went back)
                                   └─ more than a minute later? the minutes between were missed (a gap)

"Every local time so far" is the virtual time of Debian's cron: the latest wall minute it has dealt with. Debian deals
with jumps of up to three hours so, S8 asks the same for jumps of any size. To know the virtual time at the start of a
window, and whether a local time comes again after its end, the model begins three days early and ends three days late.

A zone whose offset is not whole minutes (Liberia until 1972) is stepped through second by second, by the same code.
What could go wrong: a transition that follows another within hours would make "missed" and "repeated" overlap. tzdata
has none such since 1900, so the model need not decide what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from tests.oracles.zones import SECOND, local_time, zone_named

if TYPE_CHECKING:
    from tests.oracles.grammar import Expression

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MARGIN = timedelta(days=3)
DEFAULTS = {"wildcard": ("skip", "both"), "fixed": ("run_after", "first")}


class Row(NamedTuple):
    """One step: its instant in seconds since the epoch, and what the wall clock showed."""

    at: int
    second: int
    minute: int
    hour: int
    day: date
    is_new: bool
    is_last: bool


@dataclass(frozen=True)
class Gap:
    """The instant when the clock had jumped, and the local times that it jumped over."""

    at: int
    missed: tuple[datetime, ...]


@dataclass(frozen=True)
class Table:
    """A window of one zone, stepped through once and shared by all the expressions tried in it.

    The margins have served once the rows know whether they are new and last, so only the window itself is kept.
    """

    step: int
    rows: tuple[Row, ...]
    gaps: tuple[Gap, ...]
    last_seen_at: dict[datetime, int]


def seconds_since_epoch(instant: datetime) -> int:
    return (instant - EPOCH) // SECOND


def step_through(key: str, start: datetime, end: datetime, *, step: int = 60, margin: timedelta = MARGIN) -> Table:
    """Lay out `[start, end)` of a zone and `margin` on either side, one row for every `step` seconds."""
    zone = zone_named(key)
    stride = timedelta(seconds=step)
    instant = (start - margin).replace(second=0, microsecond=0)
    at, beyond = seconds_since_epoch(instant), seconds_since_epoch(end + margin)
    expected = local_time(instant, zone)  # the local time just after the virtual time
    seen: list[tuple[int, datetime, bool]] = []
    gaps: list[Gap] = []
    while at < beyond:
        local = local_time(instant, zone)
        if local.second % step:
            raise ValueError(f"{key} is not at a whole minute at {instant}: step through it by seconds")
        if local > expected:
            gaps.append(Gap(at, tuple(expected + n * stride for n in range((local - expected) // stride))))
        seen.append((at, local, local >= expected))
        if local >= expected:
            expected = local + stride
        instant += stride
        at += step
    last_seen_at = {local: at for at, local, _ in seen}
    first, beyond = seconds_since_epoch(start) // step * step, seconds_since_epoch(end)
    rows = tuple(
        Row(at, local.second, local.minute, local.hour, local.date(), is_new, last_seen_at[local] == at)
        for at, local, is_new in seen
        if first <= at < beyond
    )
    return Table(step, rows, tuple(gap for gap in gaps if first <= gap.at < beyond), last_seen_at)


def fires(expression: Expression, table: Table, gap: str | None = None, repeat: str | None = None) -> list[int]:
    """Every instant of the table's window at which the expression fires, in seconds since the epoch, sorted."""
    default_gap, default_repeat = DEFAULTS["wildcard" if expression.is_wildcard else "fixed"]
    gap, repeat = gap or default_gap, repeat or default_repeat
    minutes, hours = expression.minutes, expression.hours
    matching_days: dict[date, bool] = {}
    found: set[int] = set()
    for row in table.rows:
        if row.minute not in minutes or row.hour not in hours:
            continue
        if (repeat == "first" and not row.is_new) or (repeat == "second" and not row.is_last):
            continue
        if row.day not in matching_days:
            matching_days[row.day] = expression.matches_day(row.day)
        if matching_days[row.day]:
            found.update(row.at + second for second in seconds_within(expression, row.second, table.step))
    if gap == "run_after":
        found.update(jump.at for jump in table.gaps if is_owed(expression, jump, table, repeat))
    return sorted(found)


def is_owed(expression: Expression, jump: Gap, table: Table, repeat: str) -> bool:
    """Whether a gap swallowed a time of the expression; by `second`, a time that is still to come is not lost."""
    return any(
        local.minute in expression.minutes
        and local.hour in expression.hours
        and bool(seconds_within(expression, local.second, table.step))
        and expression.matches_day(local.date())
        and not (repeat == "second" and table.last_seen_at.get(local, jump.at) > jump.at)
        for local in jump.missed
    )


def seconds_within(expression: Expression, second: int, step: int) -> list[int]:
    """How many seconds after a row, which covers `step` of them, the expression's seconds come."""
    return [wanted - second for wanted in expression.seconds if 0 <= wanted - second < step]
