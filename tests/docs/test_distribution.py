"""The name of the distribution: `itinerary` on the package index is another project."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

TEXTS = ("*.md", "*.py", "*.toml", "*.html", "*.yaml", "Dockerfile", "Makefile")
FOLDERS = ("src", "docs", "tools", "deploy", "examples", "bench")
ANOTHER_PROJECT = re.compile(
    r"(pip3? install|uv add|uv pip install)[^\n`]*?[\s'\"]itinerary(?=[\s'\"`\[=<>~]|$)|\bitinerary\["
)


def test_the_distribution_has_a_name_of_its_own() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == "itinerary-scheduler"


def test_no_page_hint_or_error_tells_people_to_install_another_project() -> None:
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
    files += [path for folder in FOLDERS for text in TEXTS for path in (ROOT / folder).rglob(text)]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if ANOTHER_PROJECT.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["pip install itinerary", "pip install 'itinerary[postgres]'", "install itinerary[lmdb]", "uv add itinerary"],
)
def test_the_old_form_is_recognised(line: str) -> None:
    assert ANOTHER_PROJECT.search(line)


@pytest.mark.parametrize("line", ["pip install itinerary-scheduler", "pip install 'itinerary-scheduler[postgres]'"])
def test_the_new_form_is_left_alone(line: str) -> None:
    assert not ANOTHER_PROJECT.search(line)


FIRST_WITHOUT_HOLES = {
    "aiohttp": (3, 14, 3),
    "h11": (0, 16),
    "jinja2": (3, 1, 6),
    "psycopg[binary]": (3, 3, 5),
}
"""The first version of each package in which every publicly known vulnerability is fixed."""


def floors() -> dict[str, tuple[int, ...]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    pairs = [line.split(">=") for line in project["dependencies"] + extras]
    return {name: version(floor) for name, floor in pairs}


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@pytest.mark.parametrize(("package", "first"), FIRST_WITHOUT_HOLES.items())
def test_no_floor_of_a_dependency_allows_a_known_vulnerability(package: str, first: tuple[int, ...]) -> None:
    assert floors()[package] >= first


def test_the_lock_satisfies_the_floor_of_each_dependency() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    for package, floor in floors().items():
        pinned = re.findall(rf"^{re.escape(package.partition('[')[0])}==([\d.]+)", lock, re.MULTILINE)
        assert pinned, package
        assert all(version(one) >= floor for one in pinned), (package, pinned)
