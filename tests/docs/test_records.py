"""The pages about records say what the program says (E4, E11)."""

from __future__ import annotations

import re

import pytest

from itinerary import records
from itinerary.records import event_types as kinds
from itinerary.records.metrics import FIGURES
from itinerary.records.scheduler import RecordScheduler
from itinerary.records.settings import DeskSettings
from itinerary.schedules import format_duration
from tests.docs.pages import ROOT, code, reference

PAGE = reference("records")


def test_every_public_name_of_records_is_in_the_reference() -> None:
    assert not [name for name in records.__all__ if name not in PAGE.documented]


def test_every_call_of_a_desk_is_in_the_reference() -> None:
    calls = [name for name in vars(RecordScheduler) if not name.startswith("_") and name != "name"]
    told = " ".join(call for call, _ in PAGE.table("Call", "What it does"))
    assert not [name for name in calls if f"desk.{name}" not in told]


@pytest.mark.spec("E4", "settings")
def test_every_setting_of_a_desk_is_in_the_reference_with_its_default() -> None:
    rows = PAGE.table("Setting of a desk", "Default", "Meaning")
    defaults = DeskSettings()
    assert {code(name): default for name, default, _ in rows} == {
        name: shown(name, getattr(defaults, name)) for name in DeskSettings.__struct_fields__
    }


def shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    assert isinstance(value, int)
    is_time = name.endswith(("_interval", "_delay", "_for", "_timeout"))
    return format_duration(value) if is_time else str(value)


@pytest.mark.spec("E2", "documented")
def test_every_kind_of_event_is_in_the_reference_with_its_fields() -> None:
    rows = [*PAGE.table("Event", "Fields", "Meaning"), *PAGE.table("Event", "Fields", "Once for each")]
    known = {**kinds._PRODUCED, **kinds._OWN}
    assert {code(kind) for kind, *_ in rows} == set(known)
    for kind, fields, _ in rows:
        assert re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", fields)) == list(known[code(kind)].__struct_fields__)


@pytest.mark.spec("E11", "documented")
def test_every_figure_is_in_the_reference_with_what_it_says() -> None:
    assert {code(name): meaning for name, meaning in PAGE.table("Figure", "Meaning")} == FIGURES


@pytest.mark.spec("E11", "documented")
def test_every_event_of_the_log_is_in_the_reference_and_no_other() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "src/itinerary/records").glob("*.py"))
    said = set(re.findall(r'"(records\.[a-z_]+)"', sources)) | {"records.queued", "records.requeued"}
    told = {name for names, *_ in PAGE.table("Log event", "Level", "When") for name in re.findall(r"`([\w.]+)`", names)}
    assert told == said
