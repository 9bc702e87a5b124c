"""The pytest plugin of Itinerary: the fixture `itinerary_clock`.

pytest imports this in every run of every project that has Itinerary installed. So it imports nothing but pytest, and
the engine when a test asks for the fixture. A test that fails is shown with what its jobs did.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from itinerary.testing import TestNode

__all__ = ["itinerary_clock", "pytest_runtest_makereport"]

_TEST_NODES = pytest.StashKey["list[TestNode]"]()


@pytest.fixture
def itinerary_clock(request: pytest.FixtureRequest) -> Iterator[Callable[..., TestNode]]:
    """Start test nodes: `run = itinerary_clock(app, start="2026-03-08T00:00", tz="America/New_York")`.

    Each is a real node of the app on a clock that the test moves, and ends with the test.
    """
    from itinerary.testing import TestNode  # noqa: PLC0415 - see above

    nodes = request.node.stash.setdefault(_TEST_NODES, [])

    def begin(app: Any, **options: Any) -> TestNode:
        node = TestNode(app, **options)
        nodes.append(node)
        return node

    yield begin
    while nodes:
        nodes.pop().close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the jobs did with a test that failed."""
    report = yield
    if call.when == "call" and report.failed:
        for node in item.stash.get(_TEST_NODES, ()):
            report.sections.append(("Itinerary", node.describe()))
    return report
