"""How many expressions are tried where, cut into batches that pytest-xdist can spread.

The figures are those of `make fuzz`; FUZZ_SCALE multiplies them, and `make test` runs the first three tenths: the
strangest transitions, and every known fault of the libraries, have tests of their own that are always whole. The
favoured years are those whose transitions are the reason for having the zone here; every other scene is around one of
them, the rest around any from 1900 to 2198.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.oracles.dice import CAMPAIGN_SCALE, Dice, scaled
from tests.oracles.scenes import CASES_PER_SCENE, cases_of, scenes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.oracles.scenes import Case, Scene

ZONE_COUNT = 5_000
BATCH_SIZE = 5 * CASES_PER_SCENE
FAVOURED_YEARS = {
    "UTC": range(0),
    "America/New_York": range(1967, 2038),
    "Europe/London": range(1941, 1948),  # double summer time
    "Australia/Lord_Howe": range(1985, 2038),  # thirty minutes
    "Asia/Kathmandu": range(1985, 1987),  # fifteen minutes, at midnight of a new year
    "America/St_Johns": range(1987, 2012),  # at 00:01
    "Africa/Casablanca": range(2008, 2027),  # twice a year more, around Ramadan
    "Asia/Tehran": range(1977, 2023),  # at midnight, and by the Persian calendar
    "America/Nuuk": range(2023, 2026),  # at 22:00 of the day before, and a change of standard time
    "Pacific/Apia": range(2011, 2012),  # the lost day; test_fuzz_rare.py has more of it
}
COUNTS = dict.fromkeys(FAVOURED_YEARS, ZONE_COUNT) | {"UTC": 20_000, "Pacific/Apia": 1_000}


def batches(counts: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Zone, number of the batch and its size, for every batch of this run."""
    return [
        (key, number, min(BATCH_SIZE, size - first))
        for key, size in ((key, scaled(count, CAMPAIGN_SCALE)) for key, count in counts)
        for number, first in enumerate(range(0, size, BATCH_SIZE))
    ]


def scenes_and_cases(key: str, batch: int, size: int) -> Iterator[tuple[Scene, list[Case]]]:
    """What one batch tries; the same for whoever asks, the model and the libraries alike."""
    dice = Dice("cases", key, batch)
    left = size
    for scene in scenes_of(key, batch, -(-size // CASES_PER_SCENE), FAVOURED_YEARS[key]):
        cases = list(cases_of(dice, scene, min(CASES_PER_SCENE, left)))
        left -= len(cases)
        yield scene, cases
