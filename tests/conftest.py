"""What all tests share: property tests that never depend on elapsed time, and are the same each time in CI."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("project", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "project")


@pytest.fixture(autouse=True)
def structlog_as_it_comes() -> Iterator[None]:
    """A test that sets structlog up, or captures it, must not set it up for those after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width is told: `readline`, which some tests import, says how wide the terminal of the tests is."""
    monkeypatch.delenv("COLUMNS", raising=False)
