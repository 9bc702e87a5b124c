"""Why cronsim 2.8 answers otherwise than we do: two readings and three faults of its arithmetic.

    text ──▶ as cronsim reads it ──▶ the model's answer to that ─┬▶ equal to cronsim's: explained by the reading
                                                                 └▶ equal once a method is repaired: by that fault

A fault counts as the explanation only if repairing it alone, or it with others, makes cronsim agree with the model
to the last instant. So an explanation cannot hide anything but what it names.
"""

from __future__ import annotations

from datetime import UTC, timedelta
from itertools import combinations
from typing import TYPE_CHECKING

from tests.oracles.grammar import parse
from tests.oracles.libraries import BoundedCronSim, ask_cronsim, fields_of, number_of
from tests.oracles.model import fires

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime

    from tests.oracles.libraries import Answer, Question
    from tests.oracles.model import Table

HIGHEST = (59, 59, 23, 31, 12, 7)


def steps_over_one_value_run_to_the_end(text: str) -> str:
    """cronsim takes `15-15/10` for `15-59/10`: it forgets that there was a range. Ours is one value, as Debian's."""
    fields = fields_of(text)
    highest = HIGHEST[-len(fields) :]
    return " ".join(
        ",".join(_to_the_end(item, high) for item in field.split(","))
        for field, high in zip(fields, highest, strict=True)
    )


def _to_the_end(item: str, high: int) -> str:
    span, _, step = item.partition("/")
    first, _, last = span.partition("-")
    return f"{first}-{high}/{step}" if step and last and number_of(first) == number_of(last) else item


def six_fields_follow_real_time(text: str) -> bool:
    """cronsim gives Debian's care for gaps and repeats to five fields only. Ours (S8) does not depend on seconds."""
    return len(fields_of(text)) == 6


class HoursRepaired(BoundedCronSim):
    """cronsim seeks the hour from the full local hour in steps of 3600 s, so that it comes out half an hour early
    or late where the clock shifts by less than an hour or off the hour, and passes over runs or goes round in
    circles. Repaired, it goes minute by minute."""

    def advance_hour(self) -> bool:
        if self.dt.tzinfo in (None, UTC):
            return super().advance_hour()
        if self.dt.hour in self.hours:
            return False
        self.dt, today = self.dt.replace(second=0), self.dt.date()
        while self.dt.hour not in self.hours and self.dt.date() == today:
            self.tick(60)
        return True


class MinutesRepaired(BoundedCronSim):
    """cronsim jumps to a single wanted minute as if every hour had sixty, and passes over it where one has not.
    Repaired, it goes minute by minute."""

    def advance_minute(self) -> bool:
        if self.dt.minute in self.minutes:
            return False
        self.dt = self.dt.replace(second=0)
        while self.dt.minute not in self.minutes:
            self.tick(60)
        return True


class DaysRepaired(BoundedCronSim):
    """cronsim seeks days and months by dates and begins them at local midnight: one that the gap swallowed, or the
    first of two when it is the second's turn, or beyond a midnight over which the clock goes back. Repaired, it goes
    minute by minute where a transition is near, and a day begins with the first minute that it really has."""

    def advance_day(self) -> bool:
        if self.match_day(self.dt.date()):
            return False
        before = self.dt.astimezone(UTC)
        if not self.went_on(self.match_day):
            super().advance_day()
            self.begin_the_day(before)
        return True

    def advance_month(self) -> None:
        self.take_turn()
        before = self.dt.astimezone(UTC)
        if self.dt.month not in self.months and not self.went_on(lambda day: day.month in self.months):
            super().advance_month()
            self.begin_the_day(before)

    def went_on(self, is_wanted: Callable[[date], bool]) -> bool:
        """Whether minutes led to a wanted day; they are tried for a day and a half if the offset changes meanwhile."""
        if self.dt.tzinfo is None:
            return False
        zone, now = self.dt.tzinfo, self.dt.replace(second=0).astimezone(UTC)
        if (now + timedelta(hours=36)).astimezone(zone).utcoffset() == self.dt.utcoffset():
            return False
        for number in range(1, 36 * 60):
            local = (now + timedelta(minutes=number)).astimezone(zone)
            if is_wanted(local.date()):
                self.dt = local
                return True
        return False

    def begin_the_day(self, before: datetime) -> None:
        """The first minute of the day that was found; a date that comes by twice does not lead back in time."""
        zone, midnight = self.dt.tzinfo, self.dt
        if zone is None or midnight.utcoffset() == midnight.replace(fold=1).utcoffset():
            return
        earliest = before.replace(second=0) + timedelta(minutes=1)
        instant = max(midnight.astimezone(UTC) - timedelta(hours=30), earliest)
        while instant.astimezone(zone).date() < midnight.date():
            instant += timedelta(minutes=1)
        self.dt = instant.astimezone(zone)


FAULTS = (HoursRepaired, MinutesRepaired, DaysRepaired)


def explain(question: Question, answer: Answer, table: Table) -> tuple[str, ...]:
    """The names of the reasons; none at all if the disagreement is not understood."""
    text = steps_over_one_value_run_to_the_end(question.text)
    reasons = [steps_over_one_value_run_to_the_end.__name__] if text != " ".join(fields_of(question.text)) else []
    policies: tuple[str | None, str | None] = (None, None)
    if six_fields_follow_real_time(question.text):
        reasons.append(six_fields_follow_real_time.__name__)
        policies = ("skip", "both")
    meant = fires(parse(text), table, *policies)
    if not answer.is_endless and answer.instants == question.within(meant, len(answer.instants)):
        return tuple(reasons)
    for faults in (chosen for count in (1, 2, 3) for chosen in combinations(FAULTS, count)):
        repaired = ask_cronsim(question, type("Repaired", faults, {}))
        if repaired and not repaired.is_endless and repaired.instants == question.within(meant, len(repaired.instants)):
            return (*reasons, *(fault.__name__ for fault in faults))
    return ()
