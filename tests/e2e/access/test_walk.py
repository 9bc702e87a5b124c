"""The page of all routes and all callers is what a real node answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Page, code
from tests.e2e.access.walk import CALLERS, routes, walk

PAGE = Page(DOCS / "reference/access.md")


@pytest.mark.spec("Q6", "all routes and all callers")
def test_the_page_has_every_route_of_the_application_and_every_caller() -> None:
    rows = PAGE.table("Route", "Needs", *CALLERS)
    assert [(code(row[0]), row[1]) for row in rows] == [(f"{one.method} {one.path}", one.needs) for one in routes()]
    assert [tuple(row) for row in PAGE.table("Caller", "Who it is")] == list(CALLERS.items())


@pytest.mark.spec("Q6", "all routes and all callers")
def test_the_page_lets_no_caller_in_who_has_not_the_scope() -> None:
    lets_in = {"public": set(CALLERS) - {name for name in CALLERS if name.endswith("as local")}, "admin": {"admin"}}
    lets_in["operate"] = {"admin", "operate", "own user"}
    lets_in["read"] = {*lets_in["operate"], *(name for name in CALLERS if name == "read" or name.endswith(", read"))}
    for _, needs, *cells in PAGE.table("Route", "Needs", *CALLERS):
        assert {name for name, cell in zip(CALLERS, cells, strict=True) if cell == "yes"} == lets_in[needs]


@pytest.mark.spec("Q6", "all routes and all callers")
def test_every_route_answers_every_caller_as_the_page_says(tmp_path: Path) -> None:
    rows = PAGE.table("Route", "Needs", *CALLERS)
    wrong, left_out = [], []
    for place, (name, column) in enumerate(walk(tmp_path).items(), start=2):
        if column is None:
            left_out.append(name)
            continue
        said = [row[place] for row in rows]
        pairs = zip(routes(), said, column, strict=True)
        wrong += [
            f"{name}: {route.method} {route.path}: {cell} on the page, {was} here"
            for route, cell, was in pairs
            if cell != was
        ]
    if left_out:
        print(f"not asked, since this machine has no root or no such proxy: {', '.join(left_out)}")
    assert not wrong, "make access writes the page anew\n" + "\n".join(wrong)
