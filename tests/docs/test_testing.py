"""The pages about testing say what the program says, and their tests pass (U11)."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from itinerary import testing
from itinerary.testing import PastOccurrence, TestNode
from tests.docs.pages import DOCS, Page, code, reference

pytest_plugins = ["pytester"]
PAGE = reference("testing")
KEPT = np
"""Imported here, and not within: pytester forgets what is imported within, and NumPy is loaded once in a process."""


@pytest.mark.spec("U11", "documented")
def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    blocks = [block.source for block in Page(DOCS / "how-to/test-your-jobs.md").blocks if block.language == "python"]
    pytester.makepyfile(test_page="\n\n".join(blocks))
    result = pytester.runpytest_inprocess("-p", "pytest_itinerary", "-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=len(blocks) - 1)


@pytest.mark.spec("U11", "documented")
def test_everything_that_a_test_node_can_do_is_in_the_reference() -> None:
    told = " ".join(call for call, _ in PAGE.table("Call", "What it does"))
    assert not [name for name in vars(TestNode) if not name.startswith("_") and f"run.{name}" not in told]
    assert not [name for name in testing.__all__ if f"`{name}" not in PAGE.text]
    fields = [
        name for name, value in inspect.getmembers(PastOccurrence) if not name.startswith("_") and not callable(value)
    ]
    assert {code(name) for name, _ in PAGE.table("`PastOccurrence`", "Meaning")} == set(fields)


@pytest.mark.spec("U11", "documented")
@pytest.mark.parametrize(
    ("header", "described"), [("`itinerary_clock(app, …)`", TestNode), ("`run.fake(task, …)`", TestNode.fake)]
)
def test_every_argument_is_in_the_reference(header: str, described: object) -> None:
    assert callable(described)
    rows = PAGE.table(header, "Default", "Meaning")
    assert [code(name) for name, *_ in rows] == [
        name for name in inspect.signature(described).parameters if name != "self"
    ]
