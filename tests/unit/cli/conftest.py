"""What all tests of the commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def as_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width is told: `readline`, which other tests import, says how wide the terminal of the tests is."""
    monkeypatch.delenv("COLUMNS", raising=False)
