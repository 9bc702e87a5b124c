"""Jobs are found by name and by id, whatever they are called, and those that come later, too."""

from __future__ import annotations

from uuid import UUID

import pytest

from itinerary.core.timeline.timeline import Timeline
from itinerary.model.ids import job_id
from itinerary.model.rows import EntryKind, EntryRow, JobNumber, JobRow
from itinerary.web.job_lookup import JobLookup

NAMES = ["etl", "<script>", "../..", "é💣", "a" * 255, "a b"]


def timeline_of(names: list[str], before: Timeline | None = None) -> Timeline:
    known = Timeline() if before is None else before
    first = len(known.jobs) + 1
    jobs = [JobRow(JobNumber(number), name, 0, 1, 0) for number, name in enumerate(names, first)]
    entries = [
        EntryRow(known.revision + 1, line, job.number, EntryKind.VERSION, "1", 0, 0, "anna", 1, body="{}")
        for line, job in enumerate(jobs)
    ]
    return known.extended(entries, jobs)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_is_found_by_its_name_and_by_its_id(name: str) -> None:
    known, timeline = JobLookup(), timeline_of(NAMES)
    for found in (known.of_name(name, timeline), known.of_id(job_id(name), timeline)):
        assert found is not None
        assert found.name == name


def test_what_is_added_later_is_found_and_what_is_not_there_is_not() -> None:
    known, timeline = JobLookup(), timeline_of(NAMES)
    assert known.of_name("later", timeline) is None
    assert known.of_id(job_id("later"), timeline) is None
    timeline = timeline_of(["later"], timeline)
    assert known.of_name("later", timeline) is timeline.jobs[JobNumber(7)]
    assert known.of_id(job_id("later"), timeline) is timeline.jobs[JobNumber(7)]
    almost = bytearray(job_id("later").bytes)
    almost[6] ^= 0x10
    assert known.of_id(UUID(bytes=bytes(almost)), timeline) is None
