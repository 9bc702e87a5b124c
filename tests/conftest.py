"""What all tests share: property tests that never depend on elapsed time, and are the same each time in CI."""

import os
import signal
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from itinerary import masking as hidden
from itinerary.schedules.custom import _registered

settings.register_profile("project", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "project")

# A shell starts a background command with signals ignored, and every program that a test starts would inherit that.
for _signal in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def structlog_as_it_comes() -> Iterator[None]:
    """A test that sets structlog up, or captures it, must not set it up for those after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width is told: `readline`, which some tests import, says how wide the terminal of the tests is."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def a_process_of_its_own() -> Iterator[None]:
    """Forget what the process keeps until its end: values to hide, and kinds of schedules that a program registers."""
    before = dict(_registered)
    yield
    _registered.clear()
    _registered.update(before)
    hidden._values.clear()
    hidden._longest_first = ()
