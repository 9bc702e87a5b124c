"""The part of requirements.lock that an image installs is what the packages themselves say they need."""

from __future__ import annotations

import runpy
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKED: dict[str, Any] = runpy.run_path(str(ROOT / "tools/locked.py"))
EXTRAS = ("postgres", "kubernetes")
PYPROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
LOCK = LOCKED["read_lock"]((ROOT / "requirements.lock").read_text("utf-8"))


def runtime() -> list[Any]:
    found: list[Any] = LOCKED["needed"](LOCK, LOCKED["runtime_roots"](PYPROJECT, EXTRAS))
    return found


def required(name: str, extras: set[str], found: set[str]) -> set[str]:
    """Collect what an installed package needs here, by its own metadata."""
    for text in distribution(name).requires or ():
        one = Requirement(text)
        marker = one.marker
        holds = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})
        label = canonicalize_name(one.name)
        if holds and f"{label}{sorted(one.extras)}" not in found:
            found |= {label, f"{label}{sorted(one.extras)}"}
            required(one.name, one.extras, found)
    return found


def test_the_part_for_an_image_holds_everything_that_the_installed_packages_need() -> None:
    names = {one for one in required("itinerary-scheduler", set(EXTRAS), set()) if "[" not in one}
    assert names - {entry.name for entry in runtime()} == set()


def test_the_part_for_an_image_has_no_package_of_tests_or_documentation() -> None:
    names = {entry.name for entry in runtime()}
    assert not names & {"pytest", "mypy", "ruff", "mkdocs", "hypothesis", "playwright", "hatchling", "lmdb"}
    assert len(names) < len({entry.name for entry in LOCK}) / 1.5


def test_every_package_of_the_part_has_one_version_and_hashes_as_in_the_lock() -> None:
    whole = (ROOT / "requirements.lock").read_text("utf-8")
    for entry in runtime():
        first, *hashes = str(entry).splitlines()
        assert "==" in first
        assert hashes
        assert all(line.strip().startswith("--hash=sha256:") for line in hashes)
        assert str(entry) in whole


def test_the_part_for_a_build_begins_with_what_the_build_system_requires() -> None:
    names = {entry.name for entry in LOCKED["needed"](LOCK, LOCKED["build_roots"](PYPROJECT))}
    assert {"hatchling", "pathspec", "pluggy", "packaging", "trove-classifiers"} <= names
    assert len(names) < 10


def test_a_package_that_the_lock_lacks_and_an_unknown_extra_are_errors() -> None:
    with pytest.raises(SystemExit, match=r"requirements\.lock lacks requests-of-tomorrow; renew it with `make lock`"):
        LOCKED["needed"](LOCK, {"requests-of-tomorrow"})
    with pytest.raises(SystemExit, match=r"pyproject\.toml has no extra 'mysql'; it has postgres, lmdb, kubernetes"):
        LOCKED["runtime_roots"](PYPROJECT, ["mysql"])
