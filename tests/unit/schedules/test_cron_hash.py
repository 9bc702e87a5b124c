"""`H`: a stable spread by the job's name, expanded once and shown."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ScheduleError
from itinerary.schedules import Binding, Cron, cron, excluding, from_json, union
from tests.unit.schedules.helpers import examples, utc


def expanded(expression: str, job: str) -> str:
    """What an expression becomes in a job."""
    bound = cron(expression).bind(Binding(job))
    assert isinstance(bound, Cron)
    return bound.expression


@pytest.mark.spec("S2", "H is stable")
@pytest.mark.parametrize(
    ("expression", "job", "expansion"),
    [
        ("H 3 * * *", "backup", "11 3 * * *"),
        ("H H * * *", "backup", "11 4 * * *"),
        ("H H H * *", "report", "25 23 28 * *"),
        ("H/15 * * * *", "backup", "11-59/15 * * * *"),
        ("H(0-29) * * * *", "backup", "11 * * * *"),
        ("H(0-29)/10 * * * *", "backup", "1-29/10 * * * *"),
        ("H H H H H H", "étage \ud800", "48 23 20 24 6 1"),
    ],
)
def test_the_expansion_of_a_name_never_changes(expression: str, job: str, expansion: str) -> None:
    assert expanded(expression, job) == expansion


@pytest.mark.spec("S2", "H is stable")
@examples(200)
@given(st.text(max_size=50))
def test_any_name_gets_values_inside_its_field_or_range(job: str) -> None:
    second, minute, hour, date, month, weekday = map(int, expanded("H H H H H H", job).split(" "))
    assert 0 <= second <= 59
    assert 0 <= minute <= 59
    assert 0 <= hour <= 23
    assert 1 <= date <= 28
    assert 1 <= month <= 12
    assert 0 <= weekday <= 6
    assert 10 <= int(expanded("H(10-13) * * * *", job).split(" ")[0]) <= 13
    assert expanded("H(7-7) * * * *", job) == "7 * * * *"
    first, rest = expanded("H/15 * * * *", job).split(" ")[0].split("-")
    assert 0 <= int(first) < 15
    assert rest == "59/15"
    assert len(cron(expanded("H/15 * * * *", job)).between(utc("2026-01-01T00:00"), utc("2026-01-01T01:00"))) == 4


@cache
def spread() -> list[list[str]]:
    """What all fields become in many jobs."""
    return [expanded("H H H H H H", f"team-{n % 7}/job-{n}").split(" ") for n in range(6_000)]


@pytest.mark.spec("S2", "H spreads")
@pytest.mark.parametrize(("position", "size"), [(0, 60), (1, 60), (2, 24), (3, 28), (4, 12), (5, 7)])
def test_many_names_spread_evenly(position: int, size: int) -> None:
    counts = Counter(values[position] for values in spread())
    assert len(counts) == size
    share = counts.total() / size
    # Six standard deviations of a fair spread: a fixed set of names, so this is no gamble but a check of the hash.
    assert max(abs(count - share) for count in counts.values()) < 6 * share**0.5


@pytest.mark.spec("S2", "H spreads")
def test_minute_and_hour_of_one_name_are_spread_apart() -> None:
    pairs = {(values[1], values[2]) for values in spread()}
    assert len(pairs) > 1_400, "of 1,440 times of day"


@pytest.mark.spec("S2", "H is expanded once and shown")
def test_the_expansion_is_stored_beside_what_was_written() -> None:
    bound = cron("H H(2-4) * * *", tz="Europe/Berlin").bind(Binding("backup"))
    assert isinstance(bound, Cron)
    assert bound.written == "H H(2-4) * * *"
    assert bound.to_json() == {"cron": bound.expression, "written": "H H(2-4) * * *", "tz": "Europe/Berlin"}
    assert from_json(json.dumps(bound.to_json())) == bound
    assert bound.bind(Binding("renamed")) == bound
    assert str(bound).startswith("At 0")


@pytest.mark.spec("S2", "H is expanded once and shown")
def test_an_open_h_can_be_stored_and_described_and_says_what_it_lacks() -> None:
    hashed = cron("H 3 * * *")
    assert hashed.to_json() == {"cron": "H 3 * * *"}
    assert from_json(hashed.to_json()) == hashed
    reason = (
        "cron schedule is not complete: the H in 'H 3 \\* \\* \\*' is hashed from the job's name; "
        "register it with a job, or bind it to a name"
    )
    for ask in (lambda: hashed.next_after(0), lambda: hashed.between(0, 1)):
        with pytest.raises(ScheduleError, match=reason):
            ask()


@pytest.mark.spec("S2", "H is expanded once and shown")
def test_an_h_inside_other_schedules_is_bound_with_them() -> None:
    nested = union(excluding(cron("H 3 * * *"), "nothing"), cron("H 4 * * *"))
    with pytest.raises(ScheduleError, match="calendar 'nothing' is named and not known yet"):
        nested.next_after(0)
    assert nested.open_question() is not None
    assert expanded("H 4 * * *", "backup") in json.dumps(nested.bind(Binding("backup")).to_json())


@pytest.mark.spec("S2", "H")
def test_an_h_in_a_name_is_no_hash() -> None:
    assert cron("0 0 * mar thu").open_question() is None
    assert cron("0 h * * *").open_question() is not None


@pytest.mark.spec("S9", "longer than 256 characters")
def test_an_expansion_that_could_not_be_stored_is_refused_at_once() -> None:
    with pytest.raises(ScheduleError, match="cron expression is 427 characters long; at most 256 are allowed"):
        cron(",".join(["H/2"] * 60) + " * * * *")
    with pytest.raises(ScheduleError, match="cron expression is 300000 characters long"):
        from_json({"cron": "* * * * *", "written": "H" * 300_000})
