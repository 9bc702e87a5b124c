"""Record schedulers in a job file: declared as in Python, run, planned and applied, and mistakes with their lines."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from itinerary import Itinerary
from itinerary.cli.main import app as command_line
from itinerary.errors import JobFileError
from itinerary.records.event_types import ANY_CHECK
from tests.unit.jobs.job_file import folio

pytestmark = [pytest.mark.spec("E9", "job files"), pytest.mark.spec("U2", "records")]

FOLIO = """
store = "{store}"
allow_modules = ["tests"]

[records.folio]
partition_by = "hotel"
timezone = {{ python = "tests.unit.jobs.job_file.folio:zone_of" }}
handler = "tests.unit.jobs.job_file.folio:work"
verification = "tests.unit.jobs.job_file.folio:check_mail"
verifications = {{ email = "tests.unit.jobs.job_file.folio:check_mail" }}
on_alert = ["tests.unit.jobs.job_file.folio:told"]
schedule_interval = "20s"
enable_early_morning_skip = false
queue_high = 20
queue_low = 10
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(text, "utf-8")
    return path


def test_a_record_scheduler_of_a_job_file_is_that_of_the_same_program(tmp_path: Path) -> None:
    from_file = Itinerary(job_file=written(tmp_path, FOLIO.format(store="memory:")))
    in_python = Itinerary(store="memory:")
    desk = in_python.records(
        "folio",
        partition_by="hotel",
        timezone=folio.zone_of,
        schedule_interval="20s",
        enable_early_morning_skip=False,
        queue_high=20,
        queue_low=10,
    )
    desk.handler(folio.work)
    found, expected = from_file._desks.declared["folio"], in_python._desks.declared["folio"]
    assert (found.settings, found.partition_by) == (expected.settings, expected.partition_by)
    assert [str(found.zone_of(hotel)) for hotel in folio.ZONES] == [str(expected.zone_of(h)) for h in folio.ZONES]
    assert set(found.verifications) == {ANY_CHECK, "email"}
    assert len(found.alert_hooks) == 1
    bodies = [{name: one.body(0) for name, one in app.declared.items()} for app in (from_file, in_python)]
    assert bodies[0] == bodies[1]
    assert list(bodies[0]) == ["folio.pickup", "folio.callbacks", "folio.verifications"]


def test_the_handlers_that_a_job_file_names_are_called(tmp_path: Path) -> None:
    folio.SEEN.clear()
    app = Itinerary(job_file=written(tmp_path, FOLIO.format(store="memory:")))
    desk = app.record_scheduler("folio")

    async def story() -> None:
        async with asyncio.timeout(60), app.running():
            await desk.append("RecordCreated", record="F-1", hotel="lisbon", data={"guest": "Ada"})
            await desk.append("VerificationScheduled", record="F-1", check_time=datetime.now(UTC), verification="email")
            while len(folio.SEEN) < 2:
                await desk.process_scheduled_records()
                await desk.drained()

    asyncio.run(story())
    assert sorted(folio.SEEN) == ["check F-1", "work lisbon F-1"]
    folio.SEEN.clear()


def test_a_record_scheduler_is_checked_planned_and_applied(tmp_path: Path) -> None:
    path = written(tmp_path, FOLIO.format(store=f"sqlite:///{tmp_path}/x.db"))

    def said(*words: str) -> str:
        result = CliRunner().invoke(command_line, [*words, str(path)])
        assert result.exit_code in (0, 2), result.output
        return result.output

    assert "3 jobs" in said("check")
    assert "folio.pickup" in said("plan")
    assert "folio.verifications" in said("apply")
    assert "folio.pickup" not in said("plan"), "what was applied is no change"


MISTAKES = """\
allow_modules = ["tests"]

[jobs."folio.pickup"]
schedule = "@daily"
tasks = [{ name = "a", shell = ["true"] }]

[records.folio]
partition_by = "record"
handler = "os:system"
queue_hig = 5
batch_size_max = 0
lease_for = "soon"
timezone = "Europe/Lisbonn"

[records.empty]
queue_low = 2000
verifications = { "a/b" = "tests.x:check", c = 7 }
timezone = ["UTC"]
on_alert = [3]

[records."a/b"]
handler = "tests.x:work"
"""


def test_every_mistake_of_a_record_scheduler_is_told_with_file_line_and_key(tmp_path: Path) -> None:
    path = written(tmp_path, MISTAKES)
    with pytest.raises(JobFileError) as told:
        Itinerary(job_file=path)
    lines = [line.removeprefix(f"{path}:") for line in str(told.value).splitlines()]
    expected = [
        '3: jobs."folio.pickup": records.folio has a job of this name',
        "8: records.folio.partition_by: ",
        "9: records.folio.handler: 'os:system' is in a module from which no code may be named",
        "10: records.folio.queue_hig: unknown key; did you mean 'queue_high'?",
        "11: records.folio.batch_size_max: ",
        "12: records.folio.lease_for: ",
        "13: records.folio.timezone: ",
        "15: records.empty.handler: is missing",
        "16: records.empty.queue_low: queue_low (2000) must not be above queue_high (1000)",
        '17: records.empty.verifications."a/b": ',
        "17: records.empty.verifications.c: 7 is not a function",
        "18: records.empty.timezone: ",
        "19: records.empty.on_alert[0]: 3 is not a function",
        "21: records.\"a/b\": desk name 'a/b' has a '/'",
    ]
    missing = [start for start in expected if not any(line.startswith(start) for line in lines)]
    assert not missing, lines
    assert len(lines) <= len(expected) + 1


def test_a_file_of_record_schedulers_alone_is_a_job_file(
    tmp_path: Path,
) -> None:
    assert len(Itinerary(job_file=written(tmp_path, FOLIO.format(store="memory:")))) == 3
    with pytest.raises(JobFileError, match=r"jobs.toml:1: records: 7 is not a table of record schedulers"):
        Itinerary(job_file=written(tmp_path, "records = 7"))
    with pytest.raises(JobFileError, match=r"jobs.toml:1: records.folio: 7 is not a record scheduler"):
        Itinerary(job_file=written(tmp_path, "records.folio = 7"))
    with pytest.raises(KeyError, match="no record scheduler 'invoices' is declared here"):
        Itinerary(store="memory:").record_scheduler("invoices")
