"""Ids that are looked up among keys: the search agrees with `Key.id`, and covers all supported time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from itinerary.model.ids import job_id, occurrence_id
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, JobRow, Key
from itinerary.read.run_id_search import IdMatcher, _windows
from itinerary.schedules.durations import SECOND
from itinerary.schedules.instants import EARLIEST, LATEST

NOW = 1_800_000_000 * SECOND
JOBS = {JobNumber(n): JobRow(JobNumber(n), name, 1, 0, 0) for n, name in ((1, "etl"), (2, "a/scheduled/7"))}
ORIGINAL = occurrence_id(job_id("etl"), NOW)
KEYS = [
    Key(NOW + offset * SECOND, job, kind, request)
    for job in JOBS
    for offset in (-(10**9), 0, 1)
    for kind, request in (
        (Kind.SCHEDULED, ""),
        (Kind.BACKFILL, ""),
        (Kind.TRIGGER, f"request {offset}"),
        (Kind.REPLAY, f"{ORIGINAL}/{offset + 10**9 + 1}"),
    )
]


@pytest.mark.spec("D1")
@pytest.mark.parametrize("wanted", KEYS, ids=str)
def test_a_key_is_found_by_its_id_and_no_other_key_is(wanted: Key) -> None:
    matcher = IdMatcher(JOBS, wanted.id(job_id(JOBS[wanted.job].name)))
    assert [key for key in KEYS if matcher.matches(key)] == [wanted]


def test_a_job_that_is_not_known_yet_has_no_id() -> None:
    assert not IdMatcher({}, ORIGINAL).matches(Key(NOW, JobNumber(1), Kind.SCHEDULED))


def test_the_windows_of_a_search_cover_all_supported_time_without_a_gap() -> None:
    windows = list(_windows(NOW))
    assert (windows[0][1], windows[-1][0]) == (LATEST * SECOND, EARLIEST * SECOND)
    assert all(later[0] == earlier[1] for later, earlier in pairwise(windows))
    assert len(windows) < 20
