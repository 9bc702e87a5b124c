"""What is said of a herd: what was missed, doubled and left unfinished is counted, whoever ran it."""

from __future__ import annotations

import json
import math

import pytest

from bench.harness import Result
from bench.herds import Herd, results


def herd(*jobs: str, count: int = 4, finished: int | None = None, finished_at: float = 102.0) -> Herd:
    ran = [(job, 100.5) for job in jobs]
    return Herd(count, 100.0, ran, len(ran) if finished is None else finished, finished_at, 0.2)


def said(ours: Herd, peers: dict[str, Herd]) -> dict[tuple[str, str | None], Result]:
    return {(one.measure, one.peer): one for one in results("herd", "sqlite", ours, peers)}


def test_a_herd_that_went_well_has_nothing_missed_doubled_or_unfinished() -> None:
    well = herd("a", "b", "c", "d")
    assert (well.missed, well.doubled, well.unfinished) == (0, 0, 0)
    assert well.per_second == 2.0
    assert well.lateness(99) == pytest.approx(500.0)
    assert well.cpu_of_1000 == pytest.approx(50.0)


def test_what_ran_twice_does_not_hide_what_did_not_run() -> None:
    mixed = herd("a", "a", "b", "c")
    assert (mixed.missed, mixed.doubled, mixed.unfinished) == (1, 1, 0)


def test_what_ran_but_was_not_durably_over_in_time_is_unfinished_and_not_in_the_rate() -> None:
    slow = herd("a", "b", "c", finished=2, finished_at=160.0)
    assert (slow.missed, slow.doubled, slow.unfinished) == (1, 0, 2)
    assert slow.per_second == pytest.approx(2 / 60)


def test_a_herd_of_which_nothing_ran_has_no_lateness_and_all_of_it_is_missed() -> None:
    none = herd(finished_at=100.0)
    assert (none.missed, none.unfinished, none.per_second) == (4, 4, 0.0)
    assert math.isnan(none.lateness(99))
    beside = said(herd("a", "b", "c", "d"), {"slow": none})
    line = json.loads(beside["sqlite_4_p99_ms", "slow"].to_json())
    assert (line["theirs"], line["ratio"]) == (None, None)


def test_a_herd_goes_from_one_process_to_another_unchanged() -> None:
    before = herd("a", "b")
    after = Herd.from_json(before.to_json())
    assert (after.missed, after.per_second, [tuple(run) for run in after.ran]) == (2, before.per_second, before.ran)


def test_every_measure_stands_beside_every_peer_and_a_peer_with_fewer_jobs_says_so() -> None:
    beside = said(herd("a", "b", "c", "d"), {"whole": herd("a", "b", "c"), "part": herd("a", "b", count=2)})
    assert {peer for _, peer in beside} == {"whole", "part (2)"}
    assert beside["sqlite_4_missed", "whole"].theirs == 1
    assert beside["sqlite_4_missed", "part (2)"].theirs == 0
    assert beside["sqlite_4_unfinished", "whole"].ours == 0
    assert beside["sqlite_4_per_s", "part (2)"].ratio == 2.0


def test_ours_stands_alone_where_there_is_no_peer() -> None:
    assert {peer for _, peer in said(herd("a"), {})} == {None}
