"""Every end of a run is one event of the log, as loud as it should be, and never in the engine's way."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from itinerary.core.loop.events import OccurrenceDecided, OccurrenceEnded, OccurrenceStarted, SchedulerEvent
from itinerary.model.occurrence import Kind
from itinerary.model.rows import JobNumber, Key, Ref
from itinerary.model.states import FINAL, OccurrenceState
from itinerary.observe import run_log
from itinerary.observe.run_log import ENDS_A_SECOND, QUIET, RunLog, run_end
from itinerary.schedules.durations import SECOND

AT = 1_767_225_600_000_000
KEY = Key(AT, JobNumber(1), Kind.SCHEDULED)


def finished(outcome: OccurrenceState = OccurrenceState.COMPLETED, **more: Any) -> OccurrenceEnded:
    given: dict[str, Any] = {"started_at": AT + SECOND // 4, "due_at": AT, "attempts": 1, **more}
    return OccurrenceEnded(Ref(7), KEY, "etl", outcome, ended_at=AT + 2 * SECOND, **given)


def logged(news: Sequence[SchedulerEvent], level: int = logging.INFO) -> list[dict[str, Any]]:
    stream = io.StringIO()
    log = structlog.wrap_logger(
        structlog.PrintLogger(stream),
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    runs = RunLog(log, "first")
    runs.handle(news)
    runs.close()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("outcome", sorted(FINAL))
def test_every_final_state_has_an_event_of_its_name_and_failures_are_warnings(outcome: OccurrenceState) -> None:
    for news in (finished(outcome, why="so"), OccurrenceDecided(KEY, "etl", outcome, "so")):
        (line,) = logged([news])
        assert line["event"] == f"run.{outcome}"
        assert line["level"] == ("info" if outcome in QUIET else "warning")
        assert "so" in (line.get("error"), line.get("why"))


def test_a_failure_says_which_run_of_which_job_failed_where_why_and_after_how_long() -> None:
    (line,) = logged([finished(OccurrenceState.FAILED, why="task etl failed after 3 attempts: no disk", attempts=3)])
    assert line == {
        "event": "run.failed",
        "level": "warning",
        "job": "etl",
        "run": "etl:1767225600",
        "occurrence": 7,
        "node": "first",
        "kind": "scheduled",
        "attempt": 3,
        "delay": 0.25,
        "duration": 1.75,
        "error": "task etl failed after 3 attempts: no disk",
    }


def test_what_was_never_started_has_no_delay_and_no_duration() -> None:
    skipped = finished(OccurrenceState.SKIPPED, why="paused", started_at=None, attempts=0)
    for news in (skipped, OccurrenceDecided(KEY, "etl", OccurrenceState.SKIPPED, "paused")):
        (line,) = logged([news])
        assert not {"delay", "duration", "attempt", "error"} & line.keys()
        assert line["why"] == "paused"


def test_a_stretch_of_instants_is_one_event_that_says_how_many() -> None:
    (line,) = logged([OccurrenceDecided(KEY, "etl", OccurrenceState.MISSED, "no node ran", 3_600)])
    assert (line["event"], line["count"]) == ("run.missed", 3_600)


def test_a_start_is_no_end() -> None:
    assert not logged([OccurrenceStarted(Ref(7), KEY, "etl", AT, AT)])


def test_a_log_that_shows_only_warnings_is_not_given_what_went_well() -> None:
    told = [finished(), finished(OccurrenceState.FAILED), finished(OccurrenceState.SKIPPED)]
    assert [line["event"] for line in logged(told, logging.WARNING)] == ["run.failed"]


def test_a_log_that_cannot_keep_up_holds_nobody_up_and_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "_WAITING_MAX", 10)
    said: list[tuple[str, dict[str, Any]]] = []
    stuck, goes_on = threading.Event(), threading.Event()

    class Log:
        def info(self, event: str, **fields: Any) -> None:
            stuck.set()
            goes_on.wait(60)
            said.append((event, fields))

        warning = info

    runs = RunLog(Log(), "first")
    runs.handle([finished()])
    assert stuck.wait(60)
    for _ in range(100):
        runs.handle([finished(), finished(OccurrenceState.FAILED)])
    goes_on.set()
    runs.close()
    counts = Counter(event for event, _ in said)
    assert counts["run.failed"] == 100
    left_out = sum(fields["completed"] for event, fields in said if event == "runs.not_logged")
    assert left_out > 0
    assert counts["run.completed"] + left_out == 101


def test_an_error_of_any_length_is_a_line_of_bounded_length() -> None:
    assert len(str(run_end(finished(OccurrenceState.FAILED, why="x" * 100_000)).why)) == 2_000


def test_of_very_many_ends_in_one_second_the_first_have_events_and_the_others_are_counted() -> None:
    lines = logged([finished()] * (ENDS_A_SECOND + 200) + [finished(OccurrenceState.FAILED, why="so")])
    events = Counter(line["event"] for line in lines)
    assert events == {"run.completed": ENDS_A_SECOND, "run.failed": 1, "log.summarized": 1}
    (summary,) = [line for line in lines if line["event"] == "log.summarized"]
    assert (summary["of"], summary["count"], summary["level"]) == ("run.completed", 200, "info")


def test_a_log_that_fails_once_goes_on_and_says_what_was_lost() -> None:
    class Failing(io.StringIO):
        fails = 1

        def write(self, text: str) -> int:
            if self.fails and "run.failed" in text:
                self.fails -= 1
                raise OSError("no space left on device")
            return super().write(text)

    stream = Failing()
    log = structlog.wrap_logger(structlog.PrintLogger(stream), processors=[structlog.processors.JSONRenderer()])
    runs = RunLog(log, "first")
    runs.handle([finished(OccurrenceState.FAILED, why="so")])
    runs.handle([finished()])
    runs.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["run.completed", "runs.not_logged"]
    assert lines[-1]["failed"] == 1
