"""A bound that bounds nothing is refused where it is set, and nowhere else."""

from __future__ import annotations

import pytest

from itinerary.errors import ConfigError
from itinerary.model import OverrideLevel, read_overrides, resolve


@pytest.mark.spec("X5", "bounds")
@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            {"recovery": {"max_duration": "1h"}},
            "recovery.max_duration: has no effect while recovery.strategy is execute_all",
        ),
        ({"recovery": {"max_occurrences": 3}}, "recovery.max_occurrences: has no effect"),
        ({"max_queued": 3}, "max_queued: has no effect while overlap is skip; set overlap to queue, or leave it out"),
        ({"max_queued": 3, "overlap": "allow"}, "max_queued: has no effect while overlap is allow"),
    ],
)
def test_a_job_s_bound_without_the_choice_that_it_bounds_is_refused(job: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(job=read_overrides(job, OverrideLevel.JOB))


@pytest.mark.spec("X5", "bounds")
def test_a_bound_in_the_settings_waits_for_a_job_that_makes_the_choice() -> None:
    settings = read_overrides({"max_queued": 3, "recovery": {"max_duration": "1h"}}, OverrideLevel.SETTINGS)
    assert resolve(settings=settings).max_queued == 3
    queueing = resolve(settings=settings, job=read_overrides({"overlap": "queue"}, OverrideLevel.JOB))
    assert (queueing.max_queued, queueing.source("max_queued")) == (3, OverrideLevel.SETTINGS)


@pytest.mark.spec("X5", "bounds")
def test_one_occurrence_may_choose_otherwise_than_its_bounded_job() -> None:
    job = read_overrides({"overlap": "queue", "max_queued": 3}, OverrideLevel.JOB)
    assert resolve(job=job, occurrence=read_overrides({"overlap": "allow"}, OverrideLevel.OCCURRENCE)).max_queued == 3
