"""One of each: the schedules that the contract is held against, each with a time at which it is worth watching.

The times are nights on which a zone shifts, edges of closures, and the beginning and end of counted intervals.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from itinerary.schedules import (
    Binding,
    Calendar,
    Schedule,
    cron,
    custom,
    every,
    excluding,
    iso8601,
    once,
    union,
)
from tests.contracts.custom_kind import Tides

__all__ = ["SPECIMENS", "Specimen", "fingerprint"]

_SPRING = datetime(2026, 3, 8, 7, tzinfo=UTC)
_AUTUMN = datetime(2026, 11, 1, 6, tzinfo=UTC)
_LORD_HOWE = datetime(2026, 4, 4, 15, tzinfo=UTC)
_APIA = datetime(2011, 12, 30, 10, tzinfo=UTC)
_ST_JOHNS = datetime(2010, 11, 7, 2, 31, tzinfo=UTC)
_CASABLANCA = datetime(2026, 2, 15, 2, tzinfo=UTC)
_KWAJALEIN = datetime(1969, 9, 30, 13, tzinfo=UTC)
_CHRISTMAS = datetime(2026, 12, 26, tzinfo=UTC)


class Specimen(NamedTuple):
    """A schedule, and a window that shows what is particular about it."""

    schedule: Schedule
    around: datetime
    width: timedelta

    def __str__(self) -> str:
        return str(self.schedule)


def _hours(number: float) -> timedelta:
    return timedelta(hours=number)


def _days(number: float) -> timedelta:
    return timedelta(days=number)


def _cron_specimens() -> list[Specimen]:
    policies = [
        {"gap": gap, "repeat": repeat} for gap in ("run_after", "skip") for repeat in ("first", "second", "both")
    ]
    nights = {
        "America/New_York": (_SPRING, _AUTUMN),
        "Australia/Lord_Howe": (_LORD_HOWE,),
        "Pacific/Apia": (_APIA,),
        "America/St_Johns": (_ST_JOHNS,),
        "Africa/Casablanca": (_CASABLANCA,),
        "Pacific/Kwajalein": (_KWAJALEIN,),
    }
    defaults = [
        Specimen(cron(expression, tz=zone), night, _days(2))
        for zone, times in nights.items()
        for night in times
        for expression in ("*/7 * * * *", "30 2 * * *", "0 0-3 * * *")
    ]
    chosen = [
        Specimen(cron("*/20 0-3 * * *", tz="America/New_York", **policy), night, _hours(30))
        for night in (_SPRING, _AUTUMN)
        for policy in policies
    ]
    return [
        *defaults,
        *chosen,
        Specimen(cron("*/7 * * * * *", tz="America/New_York"), _AUTUMN, _hours(1)),
        Specimen(cron("5,50 59 1 * * *", tz="America/New_York", repeat="both"), _AUTUMN, _days(3)),
        Specimen(cron("0 0 9 29 2 * 2024-2040", tz="Asia/Kathmandu"), datetime(2028, 2, 29, tzinfo=UTC), _days(4_000)),
        Specimen(cron("0 12 L,15W * 5L,1#1", tz="Asia/Tehran"), datetime(2026, 5, 31, tzinfo=UTC), _days(200)),
        Specimen(cron("0 12 LW */2 *"), datetime(2026, 5, 31, tzinfo=UTC), _days(900)),
        Specimen(_bound(cron("H H(1-5) H * *", tz="Europe/London")), datetime(2026, 10, 25, tzinfo=UTC), _days(90)),
        Specimen(_bound(cron("H/15 * * * *")), datetime(2026, 1, 1, tzinfo=UTC), _days(1)),
    ]


def _bound(schedule: Schedule) -> Schedule:
    return schedule.bind(Binding("nightly", registered_at=1_790_000_000))


def _step_specimens() -> list[Specimen]:
    new_york = "America/New_York"
    month = datetime(2026, 3, 1, tzinfo=UTC)
    return [
        Specimen(iso8601("R/2026-01-31T09:00/P1M", tz="Europe/Berlin"), month, _days(400)),
        Specimen(iso8601("R5/2026-03-06T02:30/P1D", tz=new_york), _SPRING, _days(5)),
        Specimen(iso8601("R/2026-10-25T01:30/P1D", tz=new_york, repeat="both"), _AUTUMN, _days(5)),
        Specimen(iso8601("R/2026-03-01T02:30/P1DT1H", tz=new_york, gap="skip", repeat="second"), _SPRING, _days(9)),
        Specimen(iso8601("R9/2026-11-01T06:30Z/P1D", tz=new_york), _AUTUMN, _days(9)),
        Specimen(iso8601("R/2011-12-27T00:00/P1D", tz="Pacific/Apia"), _APIA, _days(3)),
        Specimen(iso8601("R5/2026-01-01T00:00Z/PT15M"), datetime(2026, 1, 1, tzinfo=UTC), _hours(1)),
        Specimen(iso8601("R3/2026-03-07T09:00/2026-03-08T09:00", tz=new_york), _SPRING, _days(3)),
        Specimen(iso8601("R/1999-12-31T23:59:59/P1Y2M10DT3H4M5S", tz="Asia/Tehran"), month, _days(2_000)),
        Specimen(_bound(iso8601("P3W", tz=new_york)), datetime(2026, 10, 1, tzinfo=UTC), _days(60)),
        Specimen(_bound(iso8601("R7/PT90M")), datetime(2026, 9, 21, 20, tzinfo=UTC), _hours(12)),
        Specimen(once("2026-03-08T02:30", tz=new_york), _SPRING, _days(2)),
        Specimen(once("2026-11-01T01:30", tz=new_york, repeat="second"), _AUTUMN, _days(2)),
        Specimen(once("2026-12-31T23:59:00Z", jitter="5m"), datetime(2026, 12, 31, tzinfo=UTC), _days(2)),
        Specimen(every("7m"), _SPRING, _hours(3)),
        Specimen(every("90m", start="2026-03-08T01:30", tz=new_york), _SPRING, _days(1)),
        Specimen(every("11s", start="2026-11-01T05:59:59Z", end="2026-11-01T06:10Z"), _AUTUMN, _hours(0.5)),
    ]


def _closed() -> Calendar:
    return Calendar(
        "closed",
        ["2026-12-24", "2026-12-25", "2026-12-28"],
        [("2026-12-30T08:00", "2026-12-31T12:00"), ("2026-12-22T03:00Z", "2026-12-22T04:00Z")],
    )


def _combined_specimens() -> list[Specimen]:
    hourly, new_york = cron("15 */5 * * *"), "America/New_York"
    mixed = union(cron("0 9 * * *"), every("4h", start="2026-12-20T01:00"), once("2026-12-24T13:00Z"), tz=new_york)
    weekends = Calendar("weekends", closed_on_weekends=True)
    lost = Calendar("lost", ["2011-12-29"])
    shifts = ("skip", "next", "previous")
    return [
        Specimen(mixed, _CHRISTMAS, _days(3)),
        Specimen(union(cron("*/30 * * * *"), cron("0 * * * *"), tz=new_york), _AUTUMN, _hours(6)),
        *(Specimen(excluding(hourly, _closed(), shift, tz=new_york), _CHRISTMAS, _days(9)) for shift in shifts),
        *(Specimen(excluding(mixed, weekends, shift), _CHRISTMAS, _days(5)) for shift in shifts),
        *(Specimen(excluding(cron("0 9 * * *", tz="Pacific/Apia"), lost, shift), _APIA, _days(5)) for shift in shifts),
        Specimen(
            union(excluding(every("6h"), _closed(), "next"), custom(Tides("Bristol", 7), start="2026-12-24T00:00Z")),
            _CHRISTMAS,
            _days(6),
        ),
        Specimen(custom(Tides("Bristol")), _CHRISTMAS, _days(2)),
        Specimen(custom(Tides("Cardiff", 5), tz=new_york, end="2026-12-26T12:00"), _CHRISTMAS, _days(2)),
        Specimen(excluding(custom(Tides("Dover")), _closed(), "previous", tz="Europe/London"), _CHRISTMAS, _days(9)),
    ]


SPECIMENS = [*_cron_specimens(), *_step_specimens(), *_combined_specimens()]


def fingerprint() -> list[object]:
    """Everything that must be the same in every process: data, words and instants."""
    return [
        [
            specimen.schedule.to_json(),
            str(specimen.schedule),
            [at.isoformat() for at in specimen.schedule.between(specimen.around - specimen.width, specimen.around)],
        ]
        for specimen in SPECIMENS
    ]
