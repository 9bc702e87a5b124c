"""The lines of `up`: each run has one, unless there are very many; then they are counted, and nothing is hidden."""

from __future__ import annotations

import io
import re
import threading
from typing import Final

import pytest
from rich.console import Console

from itinerary.cli import live_output as watching
from itinerary.cli.live_output import Ticker
from itinerary.core.loop.events import OccurrenceEnded
from itinerary.core.loop.log_budget import LINES_A_SECOND
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.states import OccurrenceState

SECOND: Final = 1_000_000
AT: Final = 1_800_000_000 * SECOND


def ended(number: int, outcome: OccurrenceState, at: int) -> OccurrenceEnded:
    key = Key(AT, JobNumber(number), Kind.SCHEDULED)
    return OccurrenceEnded(Ref(number), key, f"job-{number}", outcome, at - 1_000, at)


def printed(*batches: list[OccurrenceEnded]) -> list[str]:
    stream = io.StringIO()
    ticker = Ticker(Console(file=stream, width=120))
    for batch in batches:
        ticker.handle(batch)
    ticker.close()
    return stream.getvalue().splitlines()


def test_a_few_runs_have_a_line_each() -> None:
    lines = printed([ended(number, OccurrenceState.COMPLETED, AT) for number in range(3)])
    assert [re.findall("job-[0-9]+", line) for line in lines] == [["job-0"], ["job-1"], ["job-2"]]


@pytest.mark.spec("U9", "floods are summarised")
def test_of_thousands_in_a_second_the_first_have_a_line_and_the_others_are_counted() -> None:
    lines = printed([ended(number, OccurrenceState.COMPLETED, AT) for number in range(2_000)])
    assert len(lines) == LINES_A_SECOND + 1
    assert f"{2_000 - LINES_A_SECOND:,} more completed" in lines[-1]
    assert "job-50, job-51" in lines[-1]


@pytest.mark.spec("U9", "floods are summarised")
def test_failures_are_not_lost_among_thousands_that_completed() -> None:
    batch = [ended(number, OccurrenceState.COMPLETED, AT) for number in range(500)]
    batch.append(ended(777, OccurrenceState.FAILED, AT))
    lines = printed(batch)
    assert [line for line in lines if "job-777" in line and "failed" in line]


@pytest.mark.spec("U9", "floods are summarised")
def test_each_second_has_lines_of_its_own_and_every_run_is_counted_once() -> None:
    batches = [
        [ended(number, OccurrenceState.COMPLETED, AT + second * SECOND) for number in range(200)] for second in range(4)
    ]
    lines = printed(*batches)
    counted = sum(int(found) for line in lines for found in re.findall("([0-9]+) more completed", line))
    single = sum("more" not in line for line in lines)
    assert (single, counted) == (4 * LINES_A_SECOND, 4 * (200 - LINES_A_SECOND))


class Stuck(Console):
    """A terminal that stands still, as after Ctrl-S."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def print(self, *objects: object, **options: object) -> None:
        self.goes_on.wait(60)


@pytest.mark.spec("R9", "not everything ended")
@pytest.mark.parametrize("batches_max", [2, 100])
def test_a_terminal_that_takes_nothing_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, batches_max: int
) -> None:
    monkeypatch.setattr(watching, "_BATCHES_MAX", batches_max)
    monkeypatch.setattr(watching, "_CLOSE_TIMEOUT", 0.1)
    terminal = Stuck()
    ticker = Ticker(terminal)
    key = Key(0, JobNumber(1), Kind.SCHEDULED)
    item = OccurrenceEnded(
        ref=Ref(1), key=key, job="tick", outcome=OccurrenceState.COMPLETED, started_at=0, ended_at=0, why=None
    )
    for _ in range(10):
        ticker.handle([item])
    closing = threading.Thread(target=ticker.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    terminal.goes_on.set()
