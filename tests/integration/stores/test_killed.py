"""`kill -9` of a writing process at a random moment: what was acknowledged is there, all else whole or not at all."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.stores.conftest import Places
from tests.integration.stores.nursery import Life, Nursery
from tests.integration.stores.scale import KILLS, SEED, dice
from tests.integration.stores.witness import witness

_LIVES_OF_A_STORE = 8
"""After so many kills the next store is a new one, so that some die while they create it."""
_OPENING = 0.06
_WORKING = 0.25


@pytest.mark.spec("D4", "D5")
@pytest.mark.parametrize("places", ["sqlite", "lmdb", "postgres"], indirect=True)
def test_a_process_killed_at_any_moment_loses_nothing_that_it_was_told_and_leaves_nothing_in_part(
    places: Places, nursery: Nursery
) -> None:
    chance = dice("kills")
    seen: Counter[str] = Counter()
    url, past = "", list[Life]()
    for kill in range(KILLS):
        if kill % _LIVES_OF_A_STORE == 0:
            url, past = places(), []
        life = nursery.born("work", url, life=kill)
        moment = chance.uniform(0, _OPENING if kill % _LIVES_OF_A_STORE < 2 else _WORKING)
        life.listen(moment)
        life.kill()
        try:
            seen += witness(url, life, *past)
        except AssertionError as error:
            error.add_note(f"kill {kill}, after {moment:.4f} s, seed {SEED}")
            raise
        seen["while opening" if not any("opened" in word for word in life.words) else "while working"] += 1
        past.append(life)
    print(f"{KILLS} kills on {url.partition(':')[0]}: {dict(seen)}")
    assert seen["acknowledged"] > 0
    assert seen["while opening"] > 0
