"""Scenes: a zone, a window around one of its transitions, and the cases to try there.

A scene is laid out once (see model.py) and shared by all its cases. Each case has its own policies and its own
window within the scene, whose ends are drawn to the awkward places: the transition to the second, the lost or the
repeated hour, any second at all, a fraction of a second; written in UTC or as a local time of the zone, even one
that the gap swallowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.oracles.dice import Dice
from tests.oracles.generate import Surroundings, expression
from tests.oracles.model import MARGIN, Table, step_through
from tests.oracles.zones import DAY, Transition, local_time, transitions_of, zone_named

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

HOUR = timedelta(hours=1)
CASES_PER_SCENE = 50


@dataclass(frozen=True)
class Scene:
    key: str
    pivot: datetime
    start: datetime
    end: datetime
    transition: Transition | None = None
    with_seconds: bool = False
    step: int = 60

    def lay_out(self) -> Table:
        """The model's table; where seconds are stepped through, with a smaller margin, for there are sixty times as
        many."""
        return step_through(
            self.key, self.start, self.end, step=self.step, margin=MARGIN if self.step == 60 else 2 * HOUR
        )

    def surroundings(self) -> Surroundings:
        zone = zone_named(self.key)
        first, last = local_time(self.start, zone), local_time(self.end, zone)
        touched = (
            {(self.transition.first_touched + offset) for offset in _offsets(self.transition)}
            if self.transition
            else {first}
        )
        near = sorted(touched)
        days = [first.date() + n * DAY for n in range((last.date() - first.date()).days + 1)]
        days += [time.date() for time in near]
        return Surroundings(
            days, (0, 1, 2, 3, 4, *(time.hour for time in near)), (0, 0, 1, 29, 30, 59, *(time.minute for time in near))
        )


def _offsets(transition: Transition) -> Iterator[timedelta]:
    """From an hour before the first local time that a transition touches to an hour after the last one."""
    size = abs(transition.shift)
    yield from (-HOUR, timedelta(0), timedelta(minutes=1), size / 2, size - timedelta(minutes=1), size, size + HOUR)


@dataclass(frozen=True)
class Case:
    text: str
    key: str
    start: datetime
    end: datetime
    gap: str | None = None
    repeat: str | None = None
    active_from: datetime | None = None
    active_until: datetime | None = None


def scene_around(dice: Dice, key: str, transition: Transition) -> Scene:
    """A few days around a transition, or a few hours when the seconds are to be looked at."""
    with_seconds = dice.chance(12)
    reach = HOUR if with_seconds else 14 * HOUR
    size = abs(transition.shift)
    start = transition.at - size - reach * dice.uniform(1, 2.5)
    end = transition.at + size + reach * dice.uniform(1, 2.5)
    return Scene(key, transition.at, whole(start), whole(end), transition, with_seconds)


def scene_in_utc(dice: Dice) -> Scene:
    """Any days from 1901 to 2198, more often than not over the end of a month, of February or of a year."""
    with_seconds = dice.chance(12)
    pivot = datetime(dice.randint(1901, 2198), dice.choice((1, 3, dice.randint(1, 12))), 1, tzinfo=UTC)
    if dice.chance(40):
        pivot += timedelta(seconds=dice.randrange(27 * 86_400))
    reach = 2 * HOUR if with_seconds else DAY
    return Scene(
        "UTC",
        pivot,
        whole(pivot - reach * dice.uniform(0, 2)),
        whole(pivot + reach * dice.uniform(0.5, 2)),
        None,
        with_seconds,
    )


def whole(instant: datetime) -> datetime:
    return instant.replace(microsecond=0)


def scenes_of(key: str, batch: int, count: int, favoured: Container[int] = ()) -> list[Scene]:
    """The scenes of one batch of a zone: every other one around a transition of the favoured years, the rest of any."""
    dice = Dice(key, batch)
    if key == "UTC":
        return [scene_in_utc(dice) for _ in range(count)]
    known = [found for found in transitions_of(key) if is_whole_minute(found)]
    favourites = [found for found in known if found.at.year in favoured] or known
    return [scene_around(dice, key, dice.choice(favourites if n % 2 else known)) for n in range(count)]


def is_whole_minute(transition: Transition) -> bool:
    """Offsets of odd seconds need a second by second table, and have a test of their own."""
    return not any(time.second for time in (transition.at, transition.before, transition.after))


def cases_of(dice: Dice, scene: Scene, count: int = CASES_PER_SCENE) -> Iterator[Case]:
    around = scene.surroundings()
    for _ in range(count):
        text = expression(dice, around, with_seconds=scene.with_seconds)
        start, end = in_order(awkward_end(dice, scene), awkward_end(dice, scene))
        if dice.chance(25):
            start = scene.start
        active_from, active_until = in_order(whole(awkward_end(dice, scene)), whole(awkward_end(dice, scene)))
        yield Case(
            text,
            scene.key,
            start,
            end,
            gap=dice.choice((None, None, "run_after", "skip")),
            repeat=dice.choice((None, None, "first", "second", "both")),
            active_from=active_from if dice.chance(6) else None,
            active_until=active_until if dice.chance(6) else None,
        )


def in_order(one: datetime, other: datetime) -> tuple[datetime, datetime]:
    """Two instants in the order of real time; Python compares local times of one zone by what the wall clock shows."""
    return (one, other) if one.astimezone(UTC) <= other.astimezone(UTC) else (other, one)


def awkward_end(dice: Dice, scene: Scene) -> datetime:
    """An instant of the scene where windows go wrong, in UTC or as a local time of the zone."""
    zone = zone_named(scene.key)
    if scene.transition is not None and dice.chance(20):
        inside = scene.transition.first_touched + abs(scene.transition.shift) * dice.random()
        imaginary_or_repeated = inside.replace(microsecond=0, fold=dice.choice((0, 1)), tzinfo=zone)
        return imaginary_or_repeated if dice.chance(50) else imaginary_or_repeated.astimezone(UTC)
    instant = dice.weighted(
        [
            (20, scene.pivot + timedelta(seconds=dice.choice((-61, -60, -1, 0, 1, 59, 60)))),
            (20, scene.pivot + timedelta(minutes=dice.randint(-90, 90))),
            (50, scene.start + timedelta(seconds=dice.randint(0, (scene.end - scene.start) // timedelta(seconds=1)))),
            (10, scene.pivot + timedelta(microseconds=dice.randint(-3_600_000_000, 3_600_000_000))),
        ]
    )
    instant = min(scene.end, max(scene.start, instant))
    return instant.astimezone(zone) if dice.chance(25) else instant
