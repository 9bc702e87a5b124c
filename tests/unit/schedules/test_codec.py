"""Schedules as plain data: what is read, what is refused, and that nothing else ever comes out."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ItineraryError, ScheduleError
from itinerary.schedules import Schedule, cron, every, from_json, iso8601, once, union
from tests.unit.schedules.helpers import examples, utc

KINDS = "cron, every, iso8601, once, union, excluding, reboot, custom"
ONE_KIND = f"a schedule has exactly one of the keys {KINDS}; here is"
TABLE = "a schedule is a table such as { every = '15m' } or a cron expression, not"

READ: list[tuple[Any, Schedule]] = [
    ("0 5 * * *", cron("0 5 * * *")),
    ('{"every": "15m"}', every("15m")),
    ('  {"every": 900}', every("15m")),
    ({"cron": "@daily", "tz": "Asia/Tokyo", "gap": "skip"}, cron("@daily", tz="Asia/Tokyo", gap="skip")),
    ({"cron": "@reboot"}, cron("@reboot")),
    ({"reboot": True}, cron("@reboot")),
    ({"every": 0.9e3, "start": "2026-01-01", "jitter": "5s"}, every("15m", start="2026-01-01", jitter=5)),
    ({"once": "2026-12-31T23:59:00Z"}, once("2026-12-31T23:59:00Z")),
    ({"iso8601": "R/2026-01-31T09:00/P1M", "repeat": "both"}, iso8601("R/2026-01-31T09:00/P1M", repeat="both")),
    ({"union": ["0 5 * * *", {"every": "1h"}]}, union(cron("0 5 * * *"), every("1h"))),
]

REFUSED: list[tuple[Any, str]] = [
    ({"cron": "* * * * *", "every": "1m"}, f"{ONE_KIND} cron and every at once"),
    ({}, f"{ONE_KIND} none of them among no keys"),
    ({"crn": "x", "tz": "UTC"}, f"{ONE_KIND} none of them among 'crn', 'tz'"),
    ({n: n for n in range(100_000)}, f"{ONE_KIND} none of them among 0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    ({"every": "1m", "jiter": "1s"}, "every schedule: key 'jiter' is unknown; did you mean 'jitter'?"),
    ({"every": "1m", "zzz": 1}, "every schedule: key 'zzz' is unknown; allowed are every, tz, start, end, jitter"),
    ({"every": "1m", 5: 1}, "every schedule: key 5 is unknown; allowed are every, tz, start, end, jitter"),
    ({"every": "1m", "gap": "skip"}, "every schedule: key 'gap' is unknown; allowed are"),
    ({"cron": "* * * * *", "tz": 5}, "cron schedule: tz is text, not 5"),
    ({"cron": "* * * * *", "tz": None}, "cron schedule: tz is text, not None"),
    ({"cron": "* * * * *", "gap": ["skip"]}, "cron schedule: gap is text, not ['skip']"),
    ({"cron": "* * * * *", "written": 5}, "cron schedule: written is text, not 5"),
    ({"cron": "* * * * *", "start": 5}, "start: 5 is no moment; write ISO 8601"),
    ({"cron": "* * * * *", "end": "later"}, "end: 'later' is no ISO 8601 moment to the second"),
    ({"cron": 5}, "a cron expression is text such as '0 5 * * *', not int"),
    ({"cron": None}, "a cron expression is text such as '0 5 * * *', not NoneType"),
    ({"every": None}, "duration None is of type NoneType"),
    ({"every": {"m": 1}}, "duration {'m': 1} is of type dict"),
    ({"every": "1m", "jitter": []}, "duration [] is of type list"),
    ({"every": True}, "duration True is a truth value"),
    ({"once": {}}, "once: {} is no moment"),
    ({"iso8601": []}, "an ISO 8601 interval is text, not list"),
    ({"union": "0 5 * * *"}, "union schedule: union is a list of schedules, not '0 5 * * *'"),
    ({"union": []}, "a union has 1 to 100 members, not 0"),
    ({"union": [5]}, f"{TABLE} 5"),
    ({"union": ["0 5 * * *"] * 101}, "a union has 1 to 100 members, not 101"),
    ({"excluding": "x"}, "excluding schedule: the key 'schedule' is missing"),
    ({"excluding": 5, "schedule": "@daily"}, "excluding needs a Calendar or the name of one, not 5"),
    ({"excluding": "x", "schedule": None}, f"{TABLE} None"),
    (
        {"excluding": "x", "schedule": "@daily", "shift": "up"},
        "shift 'up' is unknown; allowed are skip, next, previous",
    ),
    ({"reboot": 1}, "reboot schedule: write reboot = true"),
    ({"reboot": True, "gap": "skip"}, "reboot schedule: key 'gap' is unknown"),
    (5, f"{TABLE} 5"),
    (None, f"{TABLE} None"),
    (["0 5 * * *"], f"{TABLE} ['0 5 * * *']"),
    (b"0 5 * * *", f"{TABLE} b'0 5 * * *'"),
    ("{nonsense", "schedule is not valid JSON: Expecting property name"),
    ('{"every": NaN}', "duration nan is not a finite number of seconds"),
    ('{"every": -Infinity}', "duration -inf is not a finite number of seconds"),
    (f'{{"every": 1{"0" * 5_000}}}', "schedule is not valid JSON: Exceeds the limit"),
    ('{"cron": "\\u0000"}', "cron '\\x00' has 1 fields"),
    ("{" + " " * 300_000 + "}", "schedule is 300002 characters long; at most 262144 are allowed"),
    ("x" * 300_000, "cron expression is 300000 characters long; at most 256 are allowed"),
    ('{"union": [' * 5_000, "schedule is not valid JSON: "),
]


def nested(depth: int, inside: object) -> Any:
    for _ in range(depth):
        inside = {"union": [inside]}
    return inside


@pytest.mark.spec("D9", "definitions are JSON")
@pytest.mark.parametrize(("data", "schedule"), READ, ids=lambda value: str(value)[:40])
def test_data_is_read_as_in_python(data: Any, schedule: Schedule) -> None:
    assert from_json(data) == schedule
    assert from_json(json.dumps(schedule.to_json())) == schedule


@pytest.mark.spec("S9", "parse errors")
@pytest.mark.parametrize(("data", "reason"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_unknown_or_of_the_wrong_type_is_refused_with_the_reason(data: Any, reason: str) -> None:
    with pytest.raises(ItineraryError, match=f"^{re.escape(reason)}"):
        from_json(data)


@pytest.mark.spec("S9", "a bound on everything")
def test_nesting_has_a_limit_for_values_texts_and_what_is_no_schedule_at_all() -> None:
    assert from_json(nested(7, "@daily")).next_after(utc("2026-01-01")) == utc("2026-01-02")
    for deep in (nested(8, "@daily"), nested(500, "@daily"), json.dumps(nested(100, "@daily"))):
        with pytest.raises(ScheduleError, match="schedules are nested more than 8 deep; flatten them"):
            from_json(deep)
    brackets: list[Any] = []
    for _ in range(100_000):
        brackets = [brackets]
    for data in ({"cron": "* * * * *", "tz": brackets}, {"once": brackets}, {"every": brackets}, brackets):
        with pytest.raises(ItineraryError, match=re.escape("[[[[[[[...]]]]]]]")):
            from_json(cast("Any", data))


@pytest.mark.spec("D9", "definitions are JSON")
def test_only_what_was_set_is_written() -> None:
    assert every("15m").to_json() == {"every": "15m"}
    full = cron("0 5 * * *", tz="UTC", start="2026-01-01", end="2026-02-01T00:00Z", gap="skip", repeat="both", jitter=1)
    assert full.to_json() == {
        "cron": "0 5 * * *",
        "gap": "skip",
        "repeat": "both",
        "tz": "UTC",
        "start": "2026-01-01T00:00:00",
        "end": "2026-02-01T00:00:00Z",
        "jitter": "1s",
    }
    assert next(iter(full.to_json())) == "cron", "the first key is the kind"
    assert {type(value) for value in full.to_json().values()} == {str}


KEYS = (
    "cron every iso8601 once union excluding schedule shift reboot custom value tz start end jitter gap repeat written "
    "anchored name dates blackouts weekend closed_on_weekends"
)
TEXTS = (
    "* * * * *|H H * * *|@daily|@reboot|15m|P1M|R/2026-01-31/P1M|2026-01-31|2026-02-01T00:00Z|UTC|Asia/Tokyo|skip|next|"
    "first|both|run_after|holidays"
)
keys = st.sampled_from(KEYS.split(" "))
texts = st.text(max_size=20) | st.sampled_from(TEXTS.split("|"))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=5)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=20,
)
likely = st.builds(
    lambda kind, value, rest: {**rest, kind: value},
    st.sampled_from(["cron", "every", "iso8601", "once", "union", "excluding", "reboot", "custom"]),
    values,
    st.dictionaries(keys, values, max_size=2),
)


@pytest.mark.spec("S9", "parse errors")
@examples(700)
@given(values | likely)
def test_any_data_is_read_or_refused_with_one_of_our_errors_and_what_is_read_survives(data: Any) -> None:
    try:
        schedule = from_json(data)
    except ItineraryError:
        return
    assert from_json(json.dumps(schedule.to_json())) == schedule
    assert str(schedule)
    if schedule.open_question() is None:
        schedule.next_after(utc("2026-01-01"))
        schedule.between(utc("2026-03-08T06:00"), utc("2026-03-08T08:00"))


@pytest.mark.spec("Q7", "definitions")
def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(ScheduleError, match="has a key twice in one object"):
        from_json('{"every": "1m", "every": "2m"}')
