"""The campaign: the engine beside the model on random expressions, in UTC and across the transitions of eight zones.

    make fuzz                           all of it; `make test` runs the first three tenths
    make fuzz FUZZ_SCALE=10             ten times as many
    FUZZ_SEED=7 pytest tests/oracles    other expressions

A failure prints all that is needed to ask again by hand. See campaign.py for what is compared.
"""

from __future__ import annotations

import pytest

from tests.oracles.campaign import Tally, check_scene
from tests.oracles.dice import CAMPAIGN_SCALE, Dice
from tests.oracles.plan import BATCH_SIZE, COUNTS, batches, scenes_and_cases

BATCHES = batches(COUNTS.items())


@pytest.mark.spec("S1", "S2", "S8", "S9", "S13")
@pytest.mark.parametrize(("key", "batch", "size"), BATCHES, ids=str)
def test_the_engine_agrees_with_the_model_on_random_expressions(key: str, batch: int, size: int) -> None:
    tally, dice = Tally(), Dice("walks", key, batch)
    for scene, cases in scenes_and_cases(key, batch, size):
        check_scene(scene, cases, dice, tally)
    assert tally.tried == size
    assert tally.refused * 20 <= size, "too many of the expressions could never fire"
    assert size < BATCH_SIZE or tally.fired * 3 >= size, "too few of the expressions had anything to fire"


def test_the_campaign_tries_exactly_as_many_expressions_as_it_promises() -> None:
    tried = {key: sum(size for zone, _, size in BATCHES if zone == key) for key in COUNTS}
    assert tried == {key: round(count * CAMPAIGN_SCALE) for key, count in COUNTS.items()}
    assert sorted(COUNTS.values()) == [1_000, *[5_000] * 8, 20_000]
