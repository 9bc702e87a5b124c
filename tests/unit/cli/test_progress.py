"""How far something is: a bar on a terminal that is gone in the end, a line now and then in a log (U3)."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from itinerary.cli.progress import progress


def said(*moments: float, total: int | None = 60) -> str:
    """What a log has at these moments, in seconds since it began."""
    now, out = [0.0], StringIO()
    with progress("audit", Console(file=out, highlight=False), lambda: now[0]) as handle:
        for moment in moments:
            now[0] = moment
            handle(15, total, "15 minutes")
    return out.getvalue()


@pytest.mark.spec("U3", "progress")
def test_a_log_hears_of_progress_only_if_it_takes_long() -> None:
    assert said(1, 9) == ""
    assert said(1, 11, 12) == "audit: 25%, 15 minutes\n"
    assert said(11, 22, total=None) == "audit: 15, 15 minutes\n" * 2


@pytest.mark.spec("U3", "progress")
def test_a_terminal_has_a_bar_that_is_gone_in_the_end() -> None:
    out = StringIO()
    with progress("backfill [etl]\x1b", Console(file=out, force_terminal=True, width=80)) as handle:
        handle(3, 10)
    shown = out.getvalue()
    assert r"backfill [etl]\x1b" in shown
    assert "3/10" in shown
    assert shown.endswith("\x1b[1A\x1b[2K"), "the line it stood on is cleared"
