"""Why croniter 6.2.4 answers otherwise than we do: how it reads (croniter_reading.py) and how it crosses a transition.

croniter finds the next local time, gives it an offset, and if that offset is new looks once more from the local
time one shift away; the earlier of the two wins. `walk` does the same in plain steps, on croniter's reading. A
disagreement is explained only if croniter answers exactly what `walk` predicts, and each instant by which the
prediction differs from our policies is one of the kinds named here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from tests.oracles.croniter_reading import READINGS, either_day_field_may_run_out, is_stuck, readings
from tests.oracles.grammar import parse
from tests.oracles.libraries import TRIES_MAX, WALK_MAX, zone_of
from tests.oracles.model import DEFAULTS, fires, seconds_since_epoch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from tests.oracles.croniter_reading import CroniterDays
    from tests.oracles.libraries import Answer, Question
    from tests.oracles.model import Table

MINUTE = timedelta(minutes=1)
YEARS_MAX = 50


class GaveUpError(Exception):
    """No local time of an expression within fifty years."""


@dataclass(frozen=True)
class Difference:
    """An instant that only one side has: where it lies, and whose it is."""

    at: int
    is_theirs: bool
    is_fixed: bool
    is_every_hour: bool
    is_second_pass: bool
    is_after_a_gap: bool


def fixed_times_run_twice_in_a_repeated_hour(one: Difference) -> bool:
    """croniter runs a fixed time in both passes of a repeated hour. Ours runs it in the first (S8, Debian)."""
    return one.is_theirs and one.is_fixed and one.is_second_pass


def repeated_times_get_lost(one: Difference) -> bool:
    """croniter loses the second pass if the first local time found one shift back is not a repeated one, or if the next
    local time has the old offset again. Ours follows real time where there is a wildcard."""
    return not one.is_theirs and not one.is_fixed and one.is_second_pass


def wildcards_of_some_hours_run_after_a_gap(one: Difference) -> bool:
    """croniter makes up for a lost time wherever the hours are restricted. Ours not if minute or hour has a
    wildcard."""
    return one.is_theirs and not one.is_fixed and not one.is_every_hour and one.is_after_a_gap


def times_of_every_hour_may_land_in_a_gap(one: Difference) -> bool:
    """croniter skips the lost times of every hour, but not if it finds one of them when it looks from one shift
    away, as it does in gaps of less than an hour. Ours skips them, or runs once for all if they are fixed."""
    return one.is_theirs and one.is_every_hour and one.is_after_a_gap


def lost_times_keep_their_seconds(one: Difference) -> bool:
    """croniter runs a lost 02:30:15 at 03:00:15. Ours runs it at the first instant after the gap, 03:00:00."""
    return one.is_fixed and not one.is_every_hour and one.is_after_a_gap and one.is_theirs == bool(one.at % 60)


def fixed_times_of_every_hour_are_skipped(one: Difference) -> bool:
    """croniter takes `0-23` for a wildcard and skips its lost times. Ours looks for a star, as Debian's."""
    return not one.is_theirs and one.is_fixed and one.is_every_hour and one.is_after_a_gap


CROSSINGS: tuple[Callable[[Difference], bool], ...] = (
    fixed_times_run_twice_in_a_repeated_hour,
    repeated_times_get_lost,
    wildcards_of_some_hours_run_after_a_gap,
    times_of_every_hour_may_land_in_a_gap,
    lost_times_keep_their_seconds,
    fixed_times_of_every_hour_are_skipped,
)


def long_gaps_are_tried_time_by_time(question: Question, answer: Answer, table: Table) -> bool:
    """croniter tries every lost time of an expression for all hours, and for each steps through the rest of the gap
    minute by minute: most of a minute for Samoa's lost day. It is cut off; until then it must have answered right."""
    meant = readings(question.text)
    lost = [(one, local) for one in meant if len(one.hours) == 24 for gap in table.gaps for local in gap.missed]
    tries = sum(len(one.seconds) for one, local in lost if is_matching(one, local))
    if tries <= TRIES_MAX - 20:
        return False
    expected = question.within(sorted({at for one in meant for at in fires(one, table, "skip", "both")}))
    before = [at for at in expected if at < table.gaps[0].at]
    return answer.instants == before[: len(answer.instants)]


def is_matching(expression: CroniterDays, local: datetime) -> bool:
    return (
        local.minute in expression.minutes and local.hour in expression.hours and expression.matches_day(local.date())
    )


def explain(question: Question, answer: Answer, table: Table) -> tuple[str, ...]:
    """The names of the reasons; none at all if the disagreement is not understood."""
    if answer.is_endless:
        is_known = long_gaps_are_tried_time_by_time(question, answer, table)
        return (long_gaps_are_tried_time_by_time.__name__,) if is_known else ()
    meant = readings(question.text)
    predicted = walk(meant, question) if not is_stuck(question.text) else []
    if answer.instants != predicted:
        return ()
    names = {concerns.__name__ for concerns in READINGS if concerns(question.text)}
    for one in differences(question, meant, predicted, table):
        kinds = {kind.__name__ for kind in CROSSINGS if kind(one)}
        if not kinds and either_day_field_may_run_out.__name__ not in names:
            return ()
        names |= kinds
    return tuple(sorted(names))


def differences(
    question: Question, meant: Sequence[CroniterDays], predicted: list[int], table: Table
) -> Iterator[Difference]:
    """By which instants croniter's crossing of the transition differs from our policies, on the same reading."""
    is_fixed = not parse(question.text).is_wildcard
    policies = DEFAULTS["fixed" if is_fixed else "wildcard"]
    every_hour = all(len(one.hours) == 24 for one in meant)
    ours = set(question.within(sorted(at for one in meant for at in fires(one, table, *policies))))
    repeated = {row.at for row in table.rows if not row.is_new}
    for at in sorted(ours ^ set(predicted)):
        if len(predicted) == WALK_MAX and at > predicted[-1]:
            break  # the walk was cut off here
        after_a_gap = any(gap.at <= at < gap.at + 60 for gap in table.gaps)
        yield Difference(at, at in predicted, is_fixed, every_hour, at // 60 * 60 in repeated, after_a_gap)


def walk(meant: Sequence[CroniterDays], question: Question) -> list[int]:
    zone = zone_of(question.scene)
    now, found = question.after.astimezone(zone), list[int]()
    while len(found) < WALK_MAX:
        try:
            now = min((following(one, now, zone) for one in meant), key=lambda local: local.replace(tzinfo=None))
        except GaveUpError:
            break
        if now.astimezone(UTC) >= question.scene.end:
            break
        found.append(seconds_since_epoch(now.astimezone(UTC)))
    return found


def following(expression: CroniterDays, now: datetime, zone: tzinfo) -> datetime:
    wall = now.replace(tzinfo=None)
    local = next_local(expression, wall)
    found, exists = with_offset(local, now, zone)
    if not exists and (len(expression.hours) == 24 or not is_later(found, now)):
        while not exists:
            local = next_local(expression, local)
            found, exists = with_offset(local, now, zone)
    shift = offset(found) - offset(now)
    if not shift:
        return found
    other, _ = with_offset(next_local(expression, wall + shift), now, zone)
    return other if is_later(other, now) and is_later(found, other) else found


def next_local(expression: CroniterDays, after: datetime) -> datetime:
    """The next local time that matches, whether or not the clock ever shows it."""
    for number in range(366 * YEARS_MAX):
        day = after.date() + timedelta(days=number)
        if not expression.matches_day(day):
            continue
        for hour in sorted(expression.hours):
            for minute in sorted(expression.minutes):
                begun = datetime.combine(day, time(hour, minute))
                if begun + MINUTE > after:
                    for second in sorted(expression.seconds):
                        if begun.replace(second=second) > after:
                            return begun.replace(second=second)
    raise GaveUpError


def with_offset(local: datetime, now: datetime, zone: tzinfo) -> tuple[datetime, bool]:
    """The local time as an instant after `now`, moved on by minutes out of a gap; and whether the clock shows it."""
    found = local.replace(tzinfo=zone, fold=0)
    exists = is_shown(found)
    while not is_shown(found):
        found += MINUTE
    second = local.replace(tzinfo=zone, fold=1)
    if exists and offset(found) != offset(second) and not is_later(found, now):
        found = second
    return found, exists


def is_shown(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == local.replace(tzinfo=None)


def is_later(one: datetime, other: datetime) -> bool:
    return one.astimezone(UTC) > other.astimezone(UTC)


def offset(local: datetime) -> timedelta:
    return local.utcoffset() or timedelta(0)
