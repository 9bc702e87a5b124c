"""A disk that fails, or a process that dies, at one certain write: under `strace`, which counts them (see `traced`)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.integration.stores.conftest import Places
from tests.integration.stores.nursery import Nursery
from tests.integration.stores.scale import SCALE, dice
from tests.integration.stores.traced import lived_under
from tests.integration.stores.witness import witness

_LAST = {"sqlite": {"pwrite64": 350, "fdatasync": 28}, "lmdb": {"pwrite64": 60, "fdatasync": 20}}
"""About how many calls there are in the life that is lived here: creating a store, one round, closing it."""
_FILES = [(kind, call) for kind, calls in _LAST.items() for call in calls]
places_and_calls = pytest.mark.parametrize(("places", "call"), _FILES, indirect=["places"])


def _moments(places: str, call: str, count: int) -> list[int]:
    """Some of the calls, from the first to the last: each part of the life has its share."""
    last = _LAST[places][call]
    chance = dice(places, call)
    count = min(last, count)
    return sorted(chance.randint(last * part // count + 1, last * (part + 1) // count) for part in range(count))


@pytest.mark.spec("D4")
@places_and_calls
def test_a_process_killed_at_a_certain_write_leaves_nothing_in_part(
    places: Places, call: str, nursery: Nursery, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["places"]
    seen: Counter[str] = Counter()
    for moment in _moments(kind, call, 2 * SCALE):
        url = places()
        life = lived_under(f"signal=SIGKILL:when={moment}", "work", url, calls=call, life=1, rounds=1)
        assert not [word for word in life.words if "wrong" in word], life.words
        seen["survived" if {"closed": True} in life.words else "killed"] += 1
        seen += witness(url, life)
        after = nursery.born("work", url, life=2, rounds=1)
        assert after.end() == 0
        witness(url, after, life)
    print(f"killed at {call} on {kind}: {dict(seen)}")
    assert seen["killed"] > seen["survived"]


@pytest.mark.spec("D4")
@pytest.mark.parametrize(("error", "named"), [("EIO", "StoreError"), ("ENOSPC", "StoreFull")])
@places_and_calls
def test_a_write_that_fails_is_said_to_have_failed_harms_nothing_and_can_be_repeated(
    places: Places, call: str, error: str, named: str, nursery: Nursery, request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.params["places"]
    seen: Counter[str] = Counter()
    for moment in _moments(kind, call, SCALE):
        url = places()
        life = lived_under(f"error={error}:when={moment}", "work", url, calls=call, life=1, rounds=1, retries=True)
        assert not [word for word in life.words if "wrong" in word], (moment, life.words)
        unopened = [word["unopened"] for word in life.words if "unopened" in word]
        assert unopened or {"closed": True} in life.words, (moment, life.words)
        for failure in (*life.failures, *unopened):
            assert failure.startswith((f"{named}: ", "StoreError: ") if call == "fdatasync" else f"{named}: "), moment
            assert url.split("///")[1] in failure
            seen[failure.partition(":")[0]] += 1
        seen["unopened"] += len(unopened)
        seen += witness(url, life)
        after = nursery.born("work", url, life=2, rounds=1)
        assert after.end() == 0
        witness(url, after, life)
    print(f"{error} at {call} on {kind}: {dict(seen)}")
