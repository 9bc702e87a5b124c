"""One scene of the campaign: the engine beside the model, one schedule at a time and all of them at once.

    cases ──▶ model.fires ───────────────┐
      │                                  ├─ equal? if not: the expression, zone, policies, window, seed and differences
      └────▶ between, next_after, enumerate_many

Nothing is dropped in silence: `Tally` counts every expression tried, those that had anything to fire, and those
that both sides refused because no day of the calendar matches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, NoReturn, cast

import pytest

from itinerary.errors import ScheduleError
from itinerary.schedules import cron, enumerate_many
from tests.oracles.dice import FUZZ_SEED
from tests.oracles.grammar import parse
from tests.oracles.model import EPOCH, fires
from tests.oracles.zones import SECOND, zone_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from itinerary.schedules import Schedule
    from tests.oracles.dice import Dice
    from tests.oracles.model import Table
    from tests.oracles.scenes import Case, Scene

MICROSECOND = timedelta(microseconds=1)
WALK_MAX = 40


@dataclass
class Tally:
    tried: int = 0
    fired: int = 0
    refused: int = 0


def microseconds(instant: datetime) -> int:
    return (instant.astimezone(UTC) - EPOCH) // MICROSECOND


def owed(case: Case, table: Table) -> list[int]:
    """What the model fires in the whole scene, in microseconds, within the schedule's own start and end."""
    instants = [at * 1_000_000 for at in fires(parse(case.text), table, case.gap, case.repeat)]
    if case.active_from is not None:
        instants = [at for at in instants if at >= microseconds(case.active_from)]
    if case.active_until is not None:
        instants = [at for at in instants if at <= microseconds(case.active_until)]
    return instants


def schedule_of(case: Case) -> Schedule:
    return cron(
        case.text,
        tz=case.key,
        gap=cast('Literal["run_after", "skip"] | None', case.gap),
        repeat=cast('Literal["first", "second", "both"] | None', case.repeat),
        start=case.active_from,
        end=case.active_until,
    )


def within(instants: Iterable[int], start: datetime, end: datetime) -> list[int]:
    first, beyond = microseconds(start), microseconds(end)
    return [at for at in instants if first <= at < beyond]


def check_scene(
    scene: Scene, cases: Sequence[Case], dice: Dice, tally: Tally, make: Callable[[Case], Schedule] = schedule_of
) -> None:
    table = scene.lay_out()
    accepted: list[tuple[Case, Schedule, list[int]]] = []
    for case in cases:
        tally.tried += 1
        schedule = accept(case, make)
        if schedule is None:
            tally.refused += 1
            continue
        expected = owed(case, table)
        tally.fired += bool(expected)
        check_between(case, schedule, expected)
        check_walks(case, schedule, expected, scene.pivot, dice)
        accepted.append((case, schedule, expected))
    for start, end in [(scene.start, scene.end), (cases[0].start, cases[0].end), (cases[-1].start, cases[-1].end)]:
        check_bulk(accepted, start, end)


def accept(case: Case, make: Callable[[Case], Schedule]) -> Schedule | None:
    """The schedule, or None where the engine and the calendar agree that it could never fire (S9)."""
    schedule: Schedule | None = None
    refusal = ""
    try:
        schedule = make(case)
    except ScheduleError as error:
        refusal = str(error)
    if (schedule is not None) != parse(case.text).can_fire():
        fail("accepted although it can never fire" if schedule else f"refused although it can fire: {refusal}", case)
    return schedule


def check_between(case: Case, schedule: Schedule, expected: list[int]) -> None:
    answer = schedule.between(case.start, case.end)
    if any(at.utcoffset() or at.tzinfo is None for at in answer):
        fail("between answered instants that are not in UTC", case)
    compare("between", case, [microseconds(at) for at in answer], within(expected, case.start, case.end))


def check_walks(case: Case, schedule: Schedule, expected: list[int], pivot: datetime, dice: Dice) -> None:
    """Follow next_after from just before the window; where it is crowded, also through the transition and elsewhere."""
    wanted = within(expected, case.start, case.end)
    starts = [case.start.astimezone(UTC) - (MICROSECOND if case.start.microsecond else SECOND)]
    if len(wanted) > WALK_MAX:
        before_pivot = sum(at < microseconds(pivot) for at in wanted)
        positions = (max(0, before_pivot - WALK_MAX // 2), dice.randrange(len(wanted)))
        starts += [EPOCH + wanted[position] * MICROSECOND for position in positions]
    for start in starts:
        due = [at for at in wanted if at > microseconds(start)]
        first = start.astimezone(zone_named(case.key)) if dice.chance(25) else start
        walked = walk(schedule, first, case.end)
        compare(f"next_after from {first}", case, walked, due[: len(walked)] if len(walked) == WALK_MAX else due)


def walk(schedule: Schedule, start: datetime, end: datetime) -> list[int]:
    """What repeated next_after finds before the end, at most WALK_MAX; it must always move forward."""
    found: list[int] = []
    at: datetime | None = start
    while at is not None and len(found) < WALK_MAX:
        following = schedule.next_after(at)
        if following is not None and microseconds(following) <= microseconds(at):
            pytest.fail(f"next_after({at}) went back to {following}: {schedule!r}", pytrace=False)
        if following is None or microseconds(following) >= microseconds(end):
            break
        found.append(microseconds(following))
        at = following
    return found


def check_bulk(accepted: Sequence[tuple[Case, Schedule, list[int]]], start: datetime, end: datetime) -> None:
    """enumerate_many answers what each schedule answers alone, whichever the order."""
    numbers, instants = enumerate_many([schedule for _, schedule, _ in accepted], start, end)
    answers: list[list[int]] = [[] for _ in accepted]
    for number, at in zip(numbers.tolist(), instants.tolist(), strict=True):
        answers[number].append(at)
    for (case, _, expected), answer in zip(accepted, answers, strict=True):
        compare(f"enumerate_many in [{start}, {end})", case, sorted(answer), within(expected, start, end))


def compare(what: str, case: Case, ours: list[int], models: list[int]) -> None:
    if ours == models:
        return
    lines = [f"{what}: {len(ours)} instants, the model has {len(models)}"]
    lines += [f"  only ours      {show(at)}" for at in sorted(set(ours) - set(models))[:5]]
    lines += [f"  only the model {show(at)}" for at in sorted(set(models) - set(ours))[:5]]
    if set(ours) == set(models):
        lines.append(f"  same instants, other order or repeated: {[show(at) for at in ours[:6]]}")
    fail("\n".join(lines), case)


def fail(what: str, case: Case) -> NoReturn:
    policies = f"gap={case.gap!r}, repeat={case.repeat!r}, start={case.active_from}, end={case.active_until}"
    asked = f"  cron({case.text!r}, tz={case.key!r}, {policies})"
    pytest.fail(f"{what}\n{asked}\n  window [{case.start}, {case.end})  FUZZ_SEED={FUZZ_SEED}", pytrace=False)


def show(at: int) -> str:
    return f"{EPOCH + at * MICROSECOND}"
