"""10,000 distinct cron expressions: compiled, and enumerated over an hour and a day, in UTC.

Each peer enumerates the same expressions over the same window, one after another, since that is all it can do, and
its answers are compared with ours instant by instant. Over 24 hours the peers, being slow, are given every tenth
expression, and their time is multiplied. Expressions are of the kind that all of them read alike: weekdays by name
(APScheduler counts them from Monday), never both day fields restricted (APScheduler then wants both).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeAlias

import numpy as np
from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from croniter_rs import croniter as croniter_rs
from cronsim import CronSim

from bench.harness import Result, stopwatch, timed
from itinerary.schedules import ScheduleTable, cron, enumerate_many

__all__ = ["expressions", "run"]

COUNT = 10_000
START = datetime(2026, 3, 2, 8, 17, tzinfo=UTC)
WINDOWS = {"1h_ms": timedelta(hours=1), "24h_ms": timedelta(hours=24)}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Compiled: TypeAlias = Any
Enumerate: TypeAlias = Callable[[Compiled, datetime, datetime], list[datetime]]


def expressions(count: int = COUNT, seed: int = 7) -> list[str]:
    """Distinct expressions of the kind that people write."""
    dice, found = Random(seed), dict[str, None]()  # noqa: S311 - a repeatable sample, no secret
    while len(found) < count:
        minute = dice.choice(
            ["*", f"*/{dice.choice([2, 5, 10, 15, 20, 30])}", _numbers(dice, 0, 59), _numbers(dice, 0, 59)]
        )
        hour = dice.choice(["*", "*", f"*/{dice.choice([2, 3, 4, 6, 8, 12])}", _numbers(dice, 0, 23)])
        day, weekday = dice.choice([("*", "*"), ("*", _weekdays(dice)), (_numbers(dice, 1, 28), "*")])
        month = dice.choice(["*", "*", "*", _numbers(dice, 1, 12)])
        found[f"{minute} {hour} {day} {month} {weekday}"] = None
    return list(found)


def _numbers(dice: Random, low: int, high: int) -> str:
    first, last = sorted(dice.sample(range(low, high + 1), 2))
    return dice.choice([str(first), f"{first},{last}", f"{first}-{last}"])


def _weekdays(dice: Random) -> str:
    first, last = sorted(dice.sample(range(7), 2))
    return dice.choice([WEEKDAYS[first], f"{WEEKDAYS[first]},{WEEKDAYS[last]}", "mon-fri"])


def _with_next(make: Callable[[str, datetime], Iterator[datetime]]) -> Enumerate:
    """A peer that is an iterator of what comes after a time."""

    def enumerate_one(expression: str, start: datetime, end: datetime) -> list[datetime]:
        found = []
        for instant in make(expression, start - timedelta(seconds=1)):
            if instant >= end:
                break
            found.append(instant)
        return found

    return enumerate_one


def _croniter_rs(text: str, after: datetime) -> Iterator[datetime]:
    """It answers naive datetimes, whatever it was given."""
    instants = croniter_rs(text, after.replace(tzinfo=None), ret_type=datetime)
    while True:
        yield instants.get_next(datetime).replace(tzinfo=UTC)


def _apscheduler(trigger: CronTrigger, start: datetime, end: datetime) -> list[datetime]:
    found, instant = [], trigger.get_next_fire_time(None, start)
    while instant is not None and instant < end:
        found.append(instant)
        instant = trigger.get_next_fire_time(instant, instant)
    return found


PEERS: dict[str, tuple[Callable[[str], Compiled], Enumerate]] = {
    "croniter": (str, _with_next(lambda text, after: croniter(text, after, ret_type=datetime))),
    "croniter-rs": (str, _with_next(_croniter_rs)),
    "cronsim": (str, _with_next(CronSim)),
    "apscheduler": (lambda text: CronTrigger.from_crontab(text, timezone=UTC), _apscheduler),
}
COMPILERS: dict[str, Callable[[str], object]] = {
    "croniter": lambda text: croniter(text, START),
    "croniter-rs": lambda text: croniter_rs(text, START),
    "cronsim": lambda text: CronSim(text, START),
    "apscheduler": lambda text: CronTrigger.from_crontab(text, timezone=UTC),
}


def run(*, quick: bool) -> Iterator[Result]:
    """Compile, then enumerate each window, beside each peer."""
    texts = expressions()
    ours = timed(partial(_compile, texts), 5) * 1e3
    step = 20 if quick else 1
    for peer, compiler in COMPILERS.items():
        theirs = timed(partial(_each, compiler, texts[::step]), 1) * step * 1e3
        yield Result("cron", "compile_ms", ours, "ms", peer, theirs)

    table = _compile(texts)
    for measure, length in WINDOWS.items():
        step = (20 if quick else 1) * (10 if length > timedelta(hours=1) else 1)
        ours = timed(partial(enumerate_many, table, START, START + length), 30) * 1e3
        numbers, instants = enumerate_many(table, START, START + length)
        for peer, (compile_one, enumerate_one) in PEERS.items():
            answers: list[list[datetime]] = []
            question = partial(_ask, enumerate_one, [compile_one(text) for text in texts[::step]], length, answers)
            theirs = stopwatch(question) * step * 1e3
            differing = _differing(answers, numbers, instants, range(0, len(texts), step))
            yield Result("cron", measure, ours, "ms", peer, theirs, differing=differing)


def _compile(texts: Sequence[str]) -> ScheduleTable:
    return ScheduleTable.compile([cron(text) for text in texts])


def _each(work: Callable[[str], object], texts: Sequence[str]) -> None:
    for text in texts:
        work(text)


def _ask(
    enumerate_one: Enumerate, compiled: Sequence[Compiled], length: timedelta, answers: list[list[datetime]]
) -> None:
    answers.extend(enumerate_one(one, START, START + length) for one in compiled)


def _differing(
    answers: Sequence[Sequence[datetime]], numbers: np.ndarray[Any, Any], instants: np.ndarray[Any, Any], rows: range
) -> int:
    order = np.lexsort((instants, numbers))
    numbers, instants = numbers[order], instants[order]
    bounds = np.searchsorted(numbers, [rows, [row + 1 for row in rows]])
    ours = (instants[low:high].tolist() for low, high in bounds.T)
    theirs = ([int(instant.timestamp()) * 1_000_000 for instant in answer] for answer in answers)
    return sum(a != b for a, b in zip(ours, theirs, strict=True))
