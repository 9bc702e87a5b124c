"""Many schedules of many zones in one call of enumerate_many, beside the model.

The campaign asks for one zone at a time. Here a window of real time holds the transitions of several zones at once, and
the schedules of all of them come in one shuffled list.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.oracles.campaign import accept, check_bulk, owed, schedule_of
from tests.oracles.dice import Dice, scaled
from tests.oracles.plan import COUNTS
from tests.oracles.scenes import Scene, awkward_end, cases_of, in_order

ZONES = (*COUNTS, "Antarctica/Troll", "Asia/Gaza", "America/Havana")
WINDOWS = {
    "2011-12-29": "Samoa's lost day",
    "2023-03-24": "Greenland, Europe and Antarctica spring forward",
    "2023-10-28": "Europe and Antarctica fall back",
    "2007-11-03": "Newfoundland at 00:01, Havana and New York",
    "2010-03-13": "America springs forward",
    "1985-12-31": "Nepal gains fifteen minutes",
    "2044-03-26": "years that a rule describes",
    "2160-10-05": "Lord Howe, long from now",
}


@pytest.mark.spec("S13")
@pytest.mark.parametrize("day", WINDOWS)
def test_schedules_of_many_zones_in_one_call_each_get_their_own_instants(day: str) -> None:
    dice = Dice("bulk", day)
    start = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(seconds=dice.randrange(3600))
    accepted = []
    count = scaled(20)
    for key in ZONES:
        scene = Scene(key, start + timedelta(hours=26), start, start + timedelta(hours=60))
        table = scene.lay_out()
        for case in cases_of(dice, scene, count):
            schedule = accept(case, schedule_of)
            if schedule is not None:
                accepted.append((case, schedule, owed(case, table)))
    assert len(accepted) >= len(ZONES) * count * 0.95
    dice.shuffle(accepted)
    whole = Scene("UTC", start + timedelta(hours=26), start, start + timedelta(hours=60))
    windows = [in_order(awkward_end(dice, whole), awkward_end(dice, whole)) for _ in range(5)]
    for first, beyond in [(whole.start, whole.end), *windows]:
        check_bulk(accepted, first, beyond)
