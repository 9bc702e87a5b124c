"""Random expressions over the whole grammar of S1 and S2.

Chance alone would hardly ever name a day of the window or a time that a transition touches, so every field is
thrown with favourites: numbers that matter where the expression will be tried. About two in three numbers are
favourites; the rest come from the whole range of the field. Fields are simple more often than not, as those that
people write; the others are lists of ranges, steps, names in any case and the words that depend on the month.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.oracles.grammar import FIRST_YEAR, LAST_YEAR, MONTHS, NICKNAMES, WEEKDAYS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tests.oracles.dice import Dice

STEPS = (1, 2, 3, 4, 5, 6, 7, 10, 12, 15, 20, 25, 30)


@dataclass(frozen=True)
class Surroundings:
    """Where an expression will be tried: the local days of the window, and the hours and minutes that matter there."""

    days: Sequence[date]
    hours: Sequence[int]
    minutes: Sequence[int]


@dataclass(frozen=True)
class Field:
    low: int
    high: int
    favourites: Sequence[int]
    names: tuple[str, ...] = ()

    def number(self, dice: Dice) -> int:
        return dice.choice(self.favourites) if dice.chance(65) else dice.randint(self.low, self.high)

    def word(self, number: int, *, named: bool) -> str:
        first = 1 if self.low == 1 else 0
        return self.names[number - first] if named and number - first < len(self.names) else str(number)


def any_case(dice: Dice, word: str) -> str:
    return dice.choice(
        (
            word.lower(),
            word.upper(),
            word.title(),
            "".join(map(dice.choice, zip(word.lower(), word.upper(), strict=True))),
        )
    )


def span(dice: Dice, field: Field) -> str:
    """A range around a favourite more often than not; `a-a` is one value."""
    first, last = sorted((field.number(dice), field.number(dice)))
    if dice.chance(8):
        first = last
    elif first == last or dice.chance(40):
        last = min(field.high, first + dice.randint(1, 8))
    named = bool(field.names) and dice.chance(40)
    return f"{field.word(first, named=named)}-{field.word(last, named=named != dice.chance(5))}"


def step(dice: Dice, field: Field) -> int:
    reach = field.high - field.low
    return dice.choice([size for size in STEPS if size <= reach]) if dice.chance(80) else dice.randint(1, reach)


def item(dice: Dice, field: Field) -> str:
    kind = dice.weighted([(55, "number"), (20, "span"), (20, "stepped span"), (5, "stepped star")])
    if kind == "number":
        return field.word(field.number(dice), named=bool(field.names) and dice.chance(40))
    if kind == "span":
        return span(dice, field)
    return f"{span(dice, field) if kind == 'stepped span' else '*'}/{step(dice, field)}"


def field_text(dice: Dice, field: Field, *, stars: float, special: Sequence[str] = ()) -> str:
    """One field: `*`, `*/n`, one item or a list, with the given per cent of plain stars."""
    if dice.chance(stars):
        return "*"
    kind = dice.weighted([(55, "one"), (15, "stepped star"), (25, "list"), (5, "starred list")])
    if kind == "stepped star":
        return f"*/{step(dice, field)}"
    if kind == "one":
        return any_case(dice, dice.choice(special) if special and dice.chance(40) else item(dice, field))
    items = [item(dice, field) for _ in range(dice.randint(1, 3))]
    items += [dice.choice(special) if special and dice.chance(50) else item(dice, field)]
    dice.shuffle(items)
    if kind == "starred list":
        items.insert(0, dice.choice(("*", f"*/{step(dice, field)}")))
    return any_case(dice, ",".join(items))


def month_day_words(dice: Dice, days: Sequence[date]) -> list[str]:
    near = dice.choice(days).day + dice.randint(-2, 2)
    return ["L", "LW", f"{min(31, max(1, near))}W", f"{dice.randint(1, 31)}W"]


def weekday_words(dice: Dice, days: Sequence[date]) -> list[str]:
    near, other = dice.choice(days), dice.randint(0, 7)
    today, name = near.isoweekday(), WEEKDAYS[near.isoweekday() % 7]
    which = (near.day - 1) // 7 + 1
    return [f"{today}L", f"{today}#{which}", f"{name}#{which}", f"{other}L", f"{other}#{dice.randint(1, 5)}"]


def expression(dice: Dice, around: Surroundings, *, with_seconds: bool = False) -> str:
    """An expression to try there; `with_seconds` gives it a rich field of seconds, for windows short enough."""
    if not with_seconds and dice.chance(1):
        return any_case(dice, dice.choice(list(NICKNAMES)))
    minute, hour = Field(0, 59, around.minutes), Field(0, 23, around.hours)
    if dice.chance(20):
        fields = [str(minute.number(dice)), str(hour.number(dice)), "*", "*", "*"]
    else:
        fields = [field_text(dice, minute, stars=12), field_text(dice, hour, stars=20), *day_fields(dice, around.days)]
    if with_seconds:
        fields.insert(0, field_text(dice, Field(0, 59, (0, 0, 1, 30, 59)), stars=6))
    elif dice.chance(12):
        fields.insert(0, ",".join(map(str, dice.sample(range(60), dice.choice((1, 1, 2))))))
    may_name_years = all(day.year >= FIRST_YEAR for day in around.days)
    if len(fields) == 6 and may_name_years and dice.chance(40):
        fields.append(field_text(dice, Field(FIRST_YEAR, LAST_YEAR, [day.year for day in around.days]), stars=25))
    return dice.choice((" ", " ", " ", "  ", "\t")).join(fields) if dice.chance(10) else " ".join(fields)


def day_fields(dice: Dice, days: Sequence[date]) -> list[str]:
    """Day of month, month and day of week; all three restricted at once would seldom leave a day of the window."""
    month_day = Field(1, 31, [day.day for day in days])
    month = Field(1, 12, [day.month for day in days], MONTHS)
    weekday = Field(0, 7, [day.isoweekday() % 7 for day in days], WEEKDAYS)
    return [
        field_text(dice, month_day, stars=55, special=month_day_words(dice, days)),
        field_text(dice, month, stars=70),
        field_text(dice, weekday, stars=55, special=weekday_words(dice, days)),
    ]
