"""The page about the architecture names files that exist, and the rooms that the import contract has."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SOURCE = ROOT / "src" / "itinerary"
_FILE = re.compile(r"`((?:[a-z_0-9]+/)*[a-z_0-9]+\.py|[a-z_0-9/]+/)`")
_LISTED = re.compile(r"^(?: {4})?((?:[a-z_0-9]+, )*[a-z_0-9]+) {2,}\S", re.MULTILINE)
ROOMS_WITH_A_LIST = [
    "api", "config", "core/loop", "core/recovery", "core/timeline", "explain", "jobs", "node", "operations", "read",
]  # fmt: skip


def layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return next(one["layers"] for one in contracts if one.get("containers") == ["itinerary"])


def modules_in(room: Path) -> set[str]:
    files = {path.stem for path in room.glob("*.py") if path.stem != "__init__"}
    return files | {path.parent.name for path in room.glob("*/__init__.py")}


def test_every_file_that_the_page_names_exists() -> None:
    named = _FILE.findall(PAGE.read_text())
    assert len(named) > 50
    assert [name for name in named if name != "__init__.py" and not (SOURCE / name).exists()] == []


def test_the_rooms_of_the_page_are_the_layers_of_the_contract_in_their_order() -> None:
    drawn = PAGE.read_text().split("## Rooms")[1].split("```text\n")[1].split("```")[0]
    rooms = [re.split(r" {2,}(?![│ ])", line.strip())[0] for line in drawn.splitlines()]
    assert [re.sub(r"\s*│\s*", " | ", room) for room in rooms] == layers()


def test_every_package_and_module_at_the_top_has_a_layer() -> None:
    known = {name.strip() for layer in layers() for name in layer.split("|")}
    assert modules_in(SOURCE) - {"__main__"} == known


@pytest.mark.parametrize("room", ROOMS_WITH_A_LIST)
def test_a_room_lists_each_of_its_modules(room: str) -> None:
    story = (SOURCE / room / "__init__.py").read_text().split('"""')[1]
    listed = {name for names in _LISTED.findall(story) for name in names.split(", ")}
    assert listed == modules_in(SOURCE / room)
