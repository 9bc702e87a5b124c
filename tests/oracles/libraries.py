"""cronsim and croniter, asked so that they cannot hang, and the question that is put to them.

Both walk from one instant to the next. A question begins six instants before the middle of its scene and takes at
most twelve, so that every walk crosses the transition. An answer ends where the library gives up (cronsim after fifty
years without a match, croniter by an error); a search that goes round in circles is cut off and is an answer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from croniter import CroniterBadDateError, CroniterError, croniter
from cronsim import CronSim, CronSimError

from tests.oracles.grammar import MONTHS, NICKNAMES, WEEKDAYS
from tests.oracles.model import EPOCH, seconds_since_epoch
from tests.oracles.zones import SECOND, zone_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from tests.oracles.scenes import Scene

WALK_MAX = 12
TURNS_MAX = 20_000
TRIES_MAX = 200


class EndlessError(Exception):
    """The library went round in circles, or would take minutes over one step."""


@dataclass(frozen=True)
class Question:
    """Which instants come after `after` and before the scene ends?"""

    text: str
    scene: Scene
    after: datetime

    def within(self, instants: Sequence[int], answered: int = 0) -> list[int]:
        """Those that an answer ought to hold; a full answer was cut off, so no more than it holds."""
        first, beyond = seconds_since_epoch(self.after), seconds_since_epoch(self.scene.end)
        asked = [at for at in instants if first < at < beyond]
        return asked[:answered] if answered == WALK_MAX else asked


@dataclass(frozen=True)
class Answer:
    instants: list[int]
    is_endless: bool = False


def question_about(text: str, scene: Scene, instants: Sequence[int]) -> Question:
    """Begin half a walk before the transition, or with the scene where that is later."""
    passed = sum(at < seconds_since_epoch(scene.pivot) for at in instants) - WALK_MAX // 2
    after = EPOCH + timedelta(seconds=instants[passed - 1]) if passed > 0 else scene.start - SECOND
    return Question(text, scene, after)


def zone_of(scene: Scene) -> tzinfo:
    return UTC if scene.key == "UTC" else zone_named(scene.key)


class BoundedCronSim(CronSim):
    """cronsim that stops when one search takes more turns than any honest one."""

    turns = 0

    def __next__(self) -> datetime:
        self.turns = 0
        return super().__next__()

    def tick(self, seconds: int = 1) -> None:
        self.take_turn()
        super().tick(seconds)

    def advance_month(self) -> None:
        self.take_turn()
        super().advance_month()

    def take_turn(self) -> None:
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise EndlessError


def ask_cronsim(question: Question, kind: type[BoundedCronSim] = BoundedCronSim) -> Answer | None:
    """None if it does not accept the expression."""
    try:
        walk = kind(question.text, question.after.astimezone(zone_of(question.scene)))
    except CronSimError:
        return None
    return collect(question, walk)


def _next(self: Any) -> Any:
    self.tries = 0
    return croniter.__next__(self)


def _calc(self: Any, *arguments: Any) -> Any:
    self.tries += 1
    if self.tries > TRIES_MAX:
        raise EndlessError
    return croniter._calc(self, *arguments)


# croniter that stops when one step tries more local times than there are in two hours.
BoundedCroniter = type("BoundedCroniter", (croniter,), {"tries": 0, "__next__": _next, "_calc": _calc})


def ask_croniter(question: Question) -> Answer | None:
    """As Debian's cron where it can be told to be: AND of the day fields after a star, seconds first."""
    after = question.after.astimezone(zone_of(question.scene))
    try:
        walk = BoundedCroniter(question.text, after, datetime, implement_cron_bug=True, second_at_beginning=True)
    except CroniterError:
        return None
    return collect(question, walk)


def collect(question: Question, walk: Iterator[datetime]) -> Answer:
    found: list[int] = []
    while len(found) < WALK_MAX:
        try:
            at = seconds_since_epoch(next(walk).astimezone(UTC))
        except (StopIteration, CroniterBadDateError):
            break
        except EndlessError:
            return Answer(found, is_endless=True)
        if at >= seconds_since_epoch(question.scene.end):
            break
        found.append(at)
    return Answer(found)


def fields_of(text: str) -> list[str]:
    return NICKNAMES.get(text.lower(), text).lower().split()


def number_of(word: str) -> int:
    """A month or a day of the week by name or number; no name is both."""
    if word in MONTHS:
        return MONTHS.index(word) + 1
    return WEEKDAYS.index(word) if word in WEEKDAYS else int(word)
