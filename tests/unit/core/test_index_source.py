"""The pure part of the index builder: the window it covers, and how one bad job never harms the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from itinerary.core import IndexSource, Rejected, ScheduledRunIndex
from itinerary.errors import WindowError
from itinerary.schedules import cron, custom, every, excluding, union

SECOND = 1_000_000
MINUTE = 60 * SECOND
NOON = 1_800_000_000 // 86_400 * 86_400 * SECOND + 12 * 60 * MINUTE


@dataclass(frozen=True)
class Stubborn:
    """A schedule of somebody else's that never advances."""

    kind: str = "stubborn"

    def next_after(self, t: datetime) -> datetime | None:
        return t

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        return [start, start] if end - start > timedelta(seconds=1) else []

    def __str__(self) -> str:
        return "never really"

    def to_json(self) -> object:
        return {}


@dataclass(frozen=True)
class OnTheHour(Stubborn):
    """One that behaves."""

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        hour = start.replace(minute=0, second=0)
        return [at for n in range(24) if start <= (at := hour + timedelta(hours=n)) < end]


@pytest.mark.spec("I3", "window")
def test_the_window_reaches_from_the_grace_period_before_now_to_the_lookahead_after_it() -> None:
    source = IndexSource.of([("b", every("1m")), ("a", "* * * * *")])
    window = source.window(NOON, grace_period=2 * MINUTE, lookahead_window=2 * MINUTE)
    assert (window.start, window.end) == (NOON - 2 * MINUTE, NOON + 2 * MINUTE)
    assert window.job_count == 2
    assert ScheduledRunIndex(window.runs).query(0, 2 * NOON) == [
        (job, NOON + minute * MINUTE) for minute in (-2, -1, 0, 1) for job in ("a", "b")
    ]


@pytest.mark.spec("I3", "left out")
def test_a_job_that_does_not_parse_is_left_out_with_the_reason_and_the_rest_is_there() -> None:
    source = IndexSource.of(
        [
            ("good", {"every": "1m"}),
            ("bad field", {"cron": "61 * * * *"}),
            ("bad key", {"every": "1m", "tzz": "UTC"}),
            ("no name yet", {"cron": "H * * * *"}),
            ("no calendar", {"excluding": "holidays", "schedule": {"every": "1m"}}),
            ("gone", {"custom": "tides", "value": {}}),
            ("no interval", {"every": "0s"}),
            ("bad jitter", {"cron": "* * * * *", "jitter": "x"}),
            ("good", {"every": "2m"}),
        ]
    )
    window = source.window(NOON, grace_period=0, lookahead_window=MINUTE)
    assert ScheduledRunIndex(window.runs).query(0, 2 * NOON) == [("good", NOON)]
    reasons = {rejected.job: rejected.reason for rejected in window.rejected}
    assert list(reasons) == [
        *("bad field", "bad key", "no name yet", "no calendar", "gone", "no interval", "bad jitter", "good")
    ]
    assert "listed twice" in reasons["good"]
    assert reasons["bad field"] == "cron '61 * * * *': minute 61 is out of range 0-59"
    assert "did you mean 'tz'" in reasons["bad key"]
    assert "'tides' is not installed" in reasons["gone"]


@pytest.mark.spec("S7", "quarantine")
def test_a_schedule_that_misbehaves_takes_only_its_own_job_out_of_the_index() -> None:
    source = IndexSource.of(
        [
            ("stuck", custom(Stubborn())),
            ("stuck inside", union(every("1h"), custom(Stubborn()))),
            ("fine", custom(OnTheHour())),
            ("plain", cron("0 * * * *")),
        ]
    )
    window = source.window(NOON, grace_period=0, lookahead_window=MINUTE)
    assert ScheduledRunIndex(window.runs).query(0, 2 * NOON) == [("fine", NOON), ("plain", NOON)]
    assert [rejected.job for rejected in window.rejected] == ["stuck", "stuck inside"]
    assert all("'stubborn'" in rejected.reason for rejected in window.rejected)


@dataclass(frozen=True)
class Endless(Stubborn):
    """One that never stops answering."""

    def between(self, start: datetime, end: datetime) -> Iterable[datetime]:
        return (start + timedelta(seconds=n) for n in range(20_000_000))


@pytest.mark.spec("S7", "quarantine")
def test_a_custom_schedule_that_answers_without_end_takes_only_its_own_job_out() -> None:
    source = IndexSource.of([("endless", custom(Endless())), ("plain", cron("0 * * * *"))])
    window = source.window(NOON, grace_period=0, lookahead_window=MINUTE)
    assert ScheduledRunIndex(window.runs).query(0, 2 * NOON) == [("plain", NOON)]
    assert [rejected.job for rejected in window.rejected] == ["endless"]


@pytest.mark.spec("I3", "window")
def test_more_runs_than_fit_shorten_the_look_ahead_instead_of_leaving_no_index() -> None:
    everyone = IndexSource.of([(f"job-{n:05}", every("1s")) for n in range(20_000)])
    window = everyone.window(NOON, grace_period=0, lookahead_window=10 * MINUTE)
    assert window.end == NOON + 5 * MINUTE
    assert len(window.runs.instants) == 20_000 * 300
    with pytest.raises(WindowError, match="more than 10,000,000 instants"):
        everyone.window(NOON, grace_period=0, lookahead_window=120 * MINUTE)


@pytest.mark.spec("I3", "empty")
def test_no_jobs_make_an_empty_window() -> None:
    window = IndexSource.of([]).window(NOON, grace_period=0, lookahead_window=MINUTE)
    assert len(window.runs.numbers) == 0
    assert window.rejected == ()


@pytest.mark.spec("I3", "left out")
def test_everything_rejected_is_an_empty_index_and_not_an_error() -> None:
    source = IndexSource.of([("a", "nonsense"), ("b", excluding(every("1m"), "unknown"))])
    window = source.window(NOON, grace_period=0, lookahead_window=MINUTE)
    assert len(window.runs.numbers) == 0
    assert [type(rejected) for rejected in window.rejected] == [Rejected, Rejected]
