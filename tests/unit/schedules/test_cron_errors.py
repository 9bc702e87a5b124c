"""Which cron expressions are refused, and how: the field, what was wrong, and what is allowed or meant."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.errors import ScheduleError
from itinerary.schedules import cron
from tests.unit.schedules.helpers import examples

PLAIN = "*, ranges a-b, steps */n and a-b/n"
MINUTES = f"allowed are 0-59, {PLAIN}, lists with commas"
DATES = f"allowed are 1-31, {PLAIN}, L, LW, 15W, lists with commas"
WEEKDAYS = f"allowed are 0-7 or SUN-SAT, {PLAIN}, 5L, 5#2, lists with commas"
COUNT = (
    "five are needed (minute, hour, day of month, month, day of week), six with leading seconds, "
    "seven with a trailing year"
)
NICKNAMES = "allowed are @yearly @annually @monthly @weekly @daily @midnight @hourly @reboot, or five to seven fields"
NEVER = "change one of these fields"
ASCII = "has characters that are not ASCII; a field takes digits, names and * , - / #"

FIELDS = {
    # out of range
    "61 * * * *": "minute 61 is out of range 0-59",
    "* 24 * * *": "hour 24 is out of range 0-23",
    "* * 0 * *": "day of month 0 is out of range 1-31",
    "* * 32 * *": "day of month 32 is out of range 1-31",
    "* * * 0 *": "month 0 is out of range 1-12",
    "* * * 13 *": "month 13 is out of range 1-12",
    "* * * * 8": "day of week 8 is out of range 0-7",
    "60 * * * * *": "second 60 is out of range 0-59",
    "* * * * * * 1969": "year 1969 is out of range 1970-2199",
    "* * * * * * 2200": "year 2200 is out of range 1970-2199",
    "1-61 * * * *": "minute 61 is out of range 0-59",
    "99999999999999 * * * *": "minute 99999999… is out of range 0-59",
    "00005 * * * *": "minute 00005 is out of range 0-59",
    "0 0 32W * *": "day of month 32 is out of range 1-31",
    "0 0 0W * *": "day of month 0 is out of range 1-31",
    # what others read in two ways
    "*/0 * * * *": "minute */0 has step 0; write a step of 1 or more",
    "0-30/0 * * * *": "minute 0-30/0 has step 0; write a step of 1 or more",
    "*/99999 * * * *": f"minute */99999 has a step over 9999; {MINUTES}",
    "0 22-5 * * *": "hour 22-5 runs backwards; write 22-23,0-5",
    "0 23-0 * * *": "hour 23-0 runs backwards; write 23,0",
    "0 0 * * fri-sun": "day of week FRI-SUN runs backwards; write 5-7",
    "0 0 * * sat-mon": "day of week SAT-MON runs backwards; write 6,0-1",
    "0 0 * nov-feb *": "month NOV-FEB runs backwards; write 11-12,1-2",
    "* * * * * * 2030-2026": "year 2030-2026 runs backwards; write 2026-2030",
    "5/15 * * * *": "minute 5/15 steps from a single value; write 5-59/15",
    "55/15 * * * *": "minute 55/15 steps from a single value; write 55",
    "* * * * 3/2": "day of week 3/2 steps from a single value; write 3-6/2",
    "0 0 ? * *": "day of month ? is Quartz's way to say any; write *",
    "0 0 * * ?": "day of week ? is Quartz's way to say any; write *",
    "0 0 * * L": "day of week L needs a day; write 6L for the last Saturday of the month, or 6 for Saturdays",
    "0 0 * * 5#6": "day of week 5#6: a month has the first to the fifth of a weekday; write #1 to #5",
    "0 0 * * 5#0": "day of week 5#0: a month has the first to the fifth of a weekday; write #1 to #5",
    # empty items
    ", * * * *": f"minute ',' has an empty item; {MINUTES}",
    "1,,2 * * * *": f"minute '1,,2' has an empty item; {MINUTES}",
    "* * * * 1,": f"day of week '1,' has an empty item; {WEEKDAYS}",
    # names
    "0 0 * * xyz": "day of week XYZ is unknown; it takes one of SUN MON TUE WED THU FRI SAT",
    "0 0 * foo *": "month FOO is unknown; it takes one of JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC",
    "0 0 * mon *": "month MON is unknown; it takes one of JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC",
    "0 xyz * * *": "hour XYZ is unknown; it takes a number 0-23",
    "0 0 * * XXXL": "day of week XXX is unknown; it takes one of SUN MON TUE WED THU FRI SAT",
    # what cannot be read at all
    "0 0 * * monday": f"day of week 'MONDAY' cannot be read; {WEEKDAYS}",
    "0 0 * * FRI#": f"day of week 'FRI#' cannot be read; {WEEKDAYS}",
    "0 0 * * 9L": f"day of week '9L' cannot be read; {WEEKDAYS}",
    "0 0 1-15W * *": f"day of month '1-15W' cannot be read; {DATES}",
    "0 0 L-3 * *": f"day of month 'L-3' cannot be read; {DATES}",
    "L * * * *": f"minute 'L' cannot be read; {MINUTES}",
    "-5 * * * *": f"minute '-5' cannot be read; {MINUTES}",
    "1-2-3 * * * *": f"minute '1-2-3' cannot be read; {MINUTES}",
    "*-5 * * * *": f"minute '*-5' cannot be read; {MINUTES}",
    "*/5/5 * * * *": f"minute '*/5/5' cannot be read; {MINUTES}",
    "5.5 * * * *": f"minute '5.5' cannot be read; {MINUTES}",
    "** * * * *": f"minute '**' cannot be read; {MINUTES}",
    "a\0b * * * *": f"minute 'A\\x00B' cannot be read; {MINUTES}",
    "* * * * *\n": f"day of week '*\\n' cannot be read; {WEEKDAYS}",
    f"{'x' * 100} * * * *": f"minute '{'X' * 40}…' cannot be read; {MINUTES}",
    # H
    "H(5-2) * * * *": "minute H(5-2) has no valid range; write H(a-b) with 0 <= a <= b <= 59",
    "H(0-99) * * * *": "minute H(0-99) has no valid range; write H(a-b) with 0 <= a <= b <= 59",
    "H/0 * * * *": "minute H/0 has step 0; write a step of 1 to 60",
    "H(0-9)/11 * * * *": "minute H(0-9)/11 has step 11; write a step of 1 to 10",
    "0 0 0 1 1 * H": "year H: years are not spread; write the years, or *",
}

WHOLE = {
    "": f"cron '' has 0 fields; {COUNT}",
    " \t ": f"cron '' has 0 fields; {COUNT}",
    "* * * *": f"cron '* * * *' has 4 fields; {COUNT}",
    "* * * * * * * *": f"cron '* * * * * * * *' has 8 fields; {COUNT}",
    "@fortnightly": f"cron '@fortnightly' is unknown; {NICKNAMES}",
    "@": f"cron '@' is unknown; {NICKNAMES}",
    "@every 5m": "cron '@every 5m' is no cron expression; write every('5m')",
    "x" * 10_000: "cron expression is 10000 characters long; at most 256 are allowed",
    " " * 257: "cron expression is 257 characters long; at most 256 are allowed",
    "0 5 * * frı": f"cron '0 5 * * frı' {ASCII}",
    "٣ * * * *": f"cron '٣ * * * *' {ASCII}",
    "0 5\u00a0* * *": f"cron '0 5\\xa0* * *' {ASCII}",
    "0 0 30 2 *": (
        f"cron '0 0 30 2 *' can never fire: no day of month 30 in month 2, day of week *, in any year; {NEVER}"
    ),
    "0 0 31 4,6,9,11 *": (
        "cron '0 0 31 4,6,9,11 *' can never fire: no day of month 31 in month 4,6,9,11, day of week *, "
        f"in any year; {NEVER}"
    ),
    "0 0 30W 2 *": (
        f"cron '0 0 30W 2 *' can never fire: no day of month 30W in month 2, day of week *, in any year; {NEVER}"
    ),
    "0 0 0 29 2 * 2025-2027": (
        "cron '0 0 0 29 2 * 2025-2027' can never fire: no day of month 29 in month 2, day of week *, "
        f"in the years given; {NEVER}"
    ),
}


@pytest.mark.spec("S9", "parse errors")
@pytest.mark.parametrize("expression", FIELDS, ids=lambda text: repr(text[:30]))
def test_a_bad_field_is_named_with_what_is_wrong_and_what_is_allowed(expression: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(f'cron {expression!r}: {FIELDS[expression]}')}$"):
        cron(expression)


@pytest.mark.spec("S9", "parse errors")
@pytest.mark.parametrize("expression", WHOLE, ids=lambda text: repr(text[:30]))
def test_a_bad_expression_is_refused_with_the_reason(expression: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(WHOLE[expression])}$"):
        cron(expression)


@pytest.mark.spec("S9", "parse errors")
@pytest.mark.parametrize("value", [5, None, b"* * * * *", ["*"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    reason = f"a cron expression is text such as '0 5 * * *', not {type(value).__name__}"
    with pytest.raises(ScheduleError, match=re.escape(reason)):
        cron(cast("Any", value))


@pytest.mark.spec("S9", "longer than 256 characters")
def test_256_characters_are_allowed() -> None:
    longest = ("1," * 124)[:-1] + " * * * *"
    assert cron(longest + " " * (256 - len(longest))) == cron(longest)


@pytest.mark.spec("S9", "parse errors")
def test_choices_are_checked_and_a_reboot_has_none() -> None:
    with pytest.raises(ScheduleError, match="gap 'after' is unknown; allowed are run_after, skip"):
        cron("* * * * *", gap="after")
    with pytest.raises(ScheduleError, match="repeat 'third' is unknown; allowed are first, second, both"):
        cron("* * * * *", repeat="third")
    with pytest.raises(ScheduleError, match="cron '@reboot' follows no clock; leave out gap and repeat"):
        cron("@reboot", gap="skip")


@pytest.mark.spec("S9", "parse errors")
@examples(600)
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(st.text("0123456789*/-,LWH#?()@ ABCfrisunmo\t", min_size=1, max_size=8), min_size=5, max_size=7).map(
            " ".join
        ),
    )
)
def test_any_text_is_read_or_refused_and_what_is_read_has_words(text: str) -> None:
    try:
        schedule = cron(text)
    except ScheduleError:
        return
    assert str(schedule)
