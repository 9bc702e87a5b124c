"""Whatever stands in a job file, it is read or it is refused with lines that say why; nothing else comes of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from itinerary import Itinerary
from itinerary.config.configuration import SETTING_KEYS
from itinerary.executors.definitions import TASK_KEYS
from itinerary.jobs.job_file.declarations import JOB_KEYS, declarations_in
from itinerary.jobs.job_file.document import Document
from itinerary.jobs.job_file.schedules import CALENDAR_KEYS
from itinerary.jobs.job_file.settings import settings_in
from itinerary.jobs.job_file.tasks import TASK_OPTIONS
from itinerary.model.definition import Requirement
from itinerary.model.policies import RecoveryPolicy, Retry
from itinerary.schedules.codec import KINDS, OPTIONS

RULES = Itinerary(store="memory:", allow_modules=["etl"])._rules
# fmt: off
WORDS = st.sampled_from([
    "", " ", "a", "skip", "queue", "wait", "act", "1h", "0s", "PT15M", "P1M", "R/2026-01-31T09:00/P1M", "0 5 * * *",
    "@daily", "H H * * *", "UTC", "Europe/Berlin", "etl:run", "os:system", "https://example.com", "2026-12-25",
    "x\0", "h",
])
# fmt: on
NUMBERS = st.one_of(st.integers(-5, 5), st.integers(), st.floats(), st.booleans())
MOMENTS = st.sampled_from([date(2026, 12, 25), time(5), datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)])  # noqa: DTZ001 - TOML has local ones
LEAVES = st.one_of(WORDS, st.text(max_size=5), NUMBERS, MOMENTS)


def tables(keys: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.one_of(st.sampled_from(list(keys)), st.sampled_from(list(keys)), st.text(max_size=4))
    return st.dictionaries(names, values, max_size=5)


EVERY_KEY = {*KINDS, *(key for keys in OPTIONS.values() for key in keys), *CALENDAR_KEYS, "name"}
EVERY_KEY |= {*Retry.__struct_fields__, *RecoveryPolicy.__struct_fields__, *Requirement.__struct_fields__, "secret"}
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), tables(EVERY_KEY, inner)), max_leaves=8
)
TASK = tables(["name", "name", *(key for keys in TASK_KEYS.values() for key in keys), *TASK_OPTIONS], VALUES)
GOOD_TASK = st.builds(lambda table, name: {**table, "name": name, "shell": ["true"]}, TASK, WORDS)
JOB = st.builds(
    lambda table, schedule, tasks: {**table, "schedule": schedule, "tasks": tasks},
    tables(JOB_KEYS, VALUES),
    st.one_of(VALUES, tables(EVERY_KEY, VALUES)),
    st.one_of(st.lists(st.one_of(TASK, GOOD_TASK), max_size=3), VALUES),
)
FILE = st.builds(
    lambda table, jobs, calendars: {**table, "jobs": jobs, "calendars": calendars},
    tables(SETTING_KEYS, VALUES),
    st.one_of(st.dictionaries(WORDS, st.one_of(JOB, VALUES), max_size=3), VALUES),
    st.one_of(st.dictionaries(WORDS, tables(CALENDAR_KEYS, VALUES), max_size=2), VALUES),
)


@pytest.mark.spec("U2", "anything")
@settings(max_examples=100, deadline=None)
@given(FILE)
def test_whatever_a_file_says_it_is_read_or_refused_in_lines(table: dict[str, Any]) -> None:
    document = Document("jobs.toml", table, {})
    problems = document.problems()
    settings_in(document, problems)
    declared = declarations_in(document, problems, RULES)
    for problem in problems.in_order():
        told = str(problem)
        assert told.startswith("jobs.toml: ")
        assert "\n" not in told
    for declaration in declared:
        assert declaration.body(registered_at=0)
