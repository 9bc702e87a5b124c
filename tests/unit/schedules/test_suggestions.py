"""The name that somebody probably meant."""

from __future__ import annotations

from itinerary.schedules.suggestions import did_you_mean, nearest

KNOWN = ("overlap", "recovery", "retry")


def test_the_name_that_is_most_alike_is_offered() -> None:
    assert nearest("overlpa", KNOWN) == "overlap"
    assert nearest("retri", dict.fromkeys(KNOWN)) == "retry"
    assert did_you_mean("overlpa", KNOWN, otherwise="see the reference") == "did you mean 'overlap'?"


def test_where_nothing_is_alike_nothing_is_offered() -> None:
    assert nearest("timezone", KNOWN) is None
    assert nearest("overl", KNOWN, alike=0.9) is None
    assert nearest("overlap", ()) is None
    assert did_you_mean("timezone", KNOWN, otherwise="see the reference") == "see the reference"


def test_what_is_no_text_or_far_too_long_is_no_trouble() -> None:
    assert nearest(7, KNOWN) is None
    assert nearest("overlap" * 1_000_000, KNOWN) is None


def test_of_very_many_names_those_that_begin_alike_are_compared() -> None:
    names = [f"job {number:06}" for number in range(100_000)] + ["nightly report"]
    assert nearest("nigthly report", names) == "nightly report"
    assert nearest("xightly report", names) is None
