"""The page about job files names every key that a job file may have, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.executors.definitions import TASK_KEYS
from itinerary.jobs.job_file.crontab import translate
from itinerary.jobs.job_file.declarations import JOB_KEYS
from itinerary.jobs.job_file.document import FILE_MAX
from itinerary.jobs.job_file.records import RECORD_KEYS
from itinerary.jobs.job_file.schedules import CALENDAR_KEYS
from itinerary.jobs.job_file.tasks import TASK_OPTIONS
from itinerary.jobs.job_file.toml_positions import NESTING_MAX
from itinerary.model.definition import Requirement
from itinerary.model.policies import RecoveryPolicy, Retry
from tests.docs.pages import DOCS, Page, code, reference

PAGE = reference("job-files")


def keys(*header: str) -> list[str]:
    return [code(key) for key, *_ in PAGE.table(*header)]


def test_every_key_of_a_job_is_in_the_reference() -> None:
    assert keys("Key of a job", "Meaning") == list(JOB_KEYS)
    meanings = {code(key): meaning for key, meaning in PAGE.table("Key of a job", "Meaning")}
    assert all(f"`{field}`" in meanings["retry"] for field in Retry.__struct_fields__)
    assert all(f"`{field}`" in meanings["recovery"] for field in RecoveryPolicy.__struct_fields__)


def test_every_key_of_a_task_is_in_the_reference_with_what_it_goes_with() -> None:
    rows = PAGE.table("Key of a task", "Goes with", "Meaning")
    assert [code(key) for key, *_ in rows] == [
        "name",
        *(key for group in TASK_KEYS.values() for key in group),
        *TASK_OPTIONS,
    ]
    goes_with = {code(key): code(kind) for key, kind, _ in rows}
    for kind, group in TASK_KEYS.items():
        assert all(goes_with[key] == ("" if key == kind else kind) for key in group)


def test_every_key_of_a_requirement_and_of_a_calendar_is_in_the_reference() -> None:
    assert keys("Key of a requirement", "Meaning") == list(Requirement.__struct_fields__)
    assert keys("Key of a calendar", "Meaning") == list(CALENDAR_KEYS)


def test_every_key_of_a_record_scheduler_is_in_the_reference() -> None:
    assert keys("Key of a record scheduler", "Meaning") == list(RECORD_KEYS)


def test_the_limits_are_those_in_the_reference() -> None:
    assert f"at most {FILE_MAX // 1024**2} MB" in PAGE.text
    assert f"at most {NESTING_MAX} deep" in PAGE.text


@pytest.mark.spec("U2", "the page's own examples")
@pytest.mark.parametrize("place", [block.line for block in PAGE.blocks if block.language == "toml"])
def test_the_job_files_in_the_reference_are_right(place: int, tmp_path: Path) -> None:
    (block,) = (block for block in PAGE.blocks if block.line == place)
    (tmp_path / "jobs.toml").write_text(block.source, "utf-8")
    declared = Itinerary(job_file=tmp_path / "jobs.toml")
    assert len(declared) == (3 if "[records." in block.source else 1)


def test_the_defaults_that_replacing_cron_shows_are_those_that_are_written() -> None:
    written = translate("0 3 * * * x", "crontab", timezone="UTC").text
    (block,) = (block for block in Page(DOCS / "how-to/replace-cron.md").blocks if block.language == "toml")
    assert all(line in written for line in block.source.splitlines())
