"""Time zones as data: tables that can be stored, compared and exchanged (protocol rule 5)."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest

from itinerary.errors import UnknownZone
from itinerary.schedules import (
    Calendar,
    Schedule,
    Zone,
    cron,
    enumerate_many,
    every,
    excluding,
    iso8601,
    once,
    packaged_zone,
    union,
)
from itinerary.schedules.zones import zone_names
from tests.unit.schedules.helpers import utc

BERLIN = "Europe/Berlin"
BEGINNING = packaged_zone("UTC").starts[0]


def five_hours_east(name: str) -> Zone:
    """A source from which every zone comes out five hours east of UTC."""
    return Zone(name, (BEGINNING,), (5 * 3_600,))


@pytest.mark.spec("S8", "zone data is a value")
@pytest.mark.parametrize(
    "schedule",
    [
        cron("0 9 * * *", tz=BERLIN),
        iso8601("R/2026-06-01T09:00/P1D", tz=BERLIN),
        iso8601("R/2026-06-01T09:00/PT24H", tz=BERLIN),
        once("2026-07-02T09:00", tz=BERLIN),
        every("24h", start="2026-06-01T09:00", tz=BERLIN),
        union(cron("0 9 * * *"), cron("0 9 * * 1"), tz=BERLIN),
        excluding(cron("0 9 * * *"), Calendar("closed", ["2026-07-01"]), "next", tz=BERLIN),
        excluding(cron("0 9 * * *"), Calendar("closed", (), [("2026-07-01T08:00", "2026-07-01T10:00")]), tz=BERLIN),
    ],
    ids=str,
)
def test_another_source_of_zones_changes_the_answers_of_every_kind(schedule: Schedule) -> None:
    start, end = utc("2026-07-01"), utc("2026-07-03")
    packaged = [at.hour for at in schedule.between(start, end)]
    assert set(packaged) == {7}
    ours = schedule.between(start, end, five_hours_east)
    assert {at.hour for at in ours} == {4}
    assert len(ours) == len(packaged)
    assert schedule.next_after(start, five_hours_east) == ours[0]
    _, instants = enumerate_many([schedule], start, end, five_hours_east)
    assert sorted(instants.tolist()) == [int(at.timestamp()) * 1_000_000 for at in ours]


@pytest.mark.spec("S8", "zone data is a value")
def test_a_source_that_lacks_a_zone_says_so() -> None:
    def nothing(name: str) -> Zone:
        raise UnknownZone(f"zone {name!r} is not stored")

    with pytest.raises(UnknownZone, match="zone 'Europe/Berlin' is not stored"):
        cron("0 9 * * *", tz=BERLIN).next_after(0, nothing)
    with pytest.raises(UnknownZone, match="zone 'UTC' is not stored"):
        cron("0 9 * * *").between(0, 1, nothing)


@pytest.mark.spec("S8", "zone data is stored by digest")
def test_a_digest_names_the_content_and_not_the_zone() -> None:
    assert packaged_zone("UTC").digest == packaged_zone("Etc/UTC").digest
    assert packaged_zone("US/Eastern").digest == packaged_zone("America/New_York").digest
    assert packaged_zone("US/Eastern") != packaged_zone("America/New_York")
    assert packaged_zone("Europe/London").digest != packaged_zone("Europe/Paris").digest
    assert packaged_zone("UTC").digest == "7bbcfef05ef42bdbdd0c0111c7216458bae435de716dde88eced2eeaf40aa8a7"


@pytest.mark.spec("S8", "zone data is stored by digest")
@pytest.mark.parametrize("name", ["UTC", "America/New_York", "Africa/Casablanca", "Pacific/Apia", "Asia/Gaza"])
def test_a_table_survives_json(name: str) -> None:
    zone = packaged_zone(name)
    again = Zone.from_json(json.loads(json.dumps(zone.to_json())))
    assert again == zone
    assert hash(again) == hash(zone)
    assert again.digest == zone.digest
    assert again != name


GOOD = {"name": "X", "starts": [BEGINNING, 0], "offsets": [0, 3_600]}


@pytest.mark.spec("S8", "zone data is stored by digest")
@pytest.mark.parametrize(
    "change",
    [
        {"starts": []},
        {"starts": [], "offsets": []},
        {"starts": [BEGINNING]},
        {"offsets": [0]},
        {"starts": [BEGINNING, BEGINNING]},
        {"starts": [0, BEGINNING]},
        {"starts": [BEGINNING + 1, 0]},
        {"starts": [BEGINNING, 2**62]},
        {"starts": [BEGINNING, 0.5]},
        {"starts": [BEGINNING, True]},
        {"starts": [BEGINNING, "0"]},
        {"starts": None},
        {"starts": "ab"},
        {"offsets": [0, None]},
        {"offsets": [0, 86_400]},
        {"offsets": [0, -(2**70)]},
        {"offsets": {"0": 1}},
        {"name": 5},
        {"name": None},
    ],
    ids=str,
)
def test_a_malformed_table_is_refused(change: dict[str, Any]) -> None:
    assert Zone.from_json(GOOD).offsets == (0, 3_600)
    with pytest.raises(UnknownZone, match=r"the stored table of zone .* is malformed; store it again"):
        Zone.from_json({**GOOD, **change})


@pytest.mark.spec("S8", "zone data is stored by digest")
@pytest.mark.parametrize("data", [{}, {"name": "X"}, None, [], "X", 5])
def test_what_is_no_table_is_refused(data: object) -> None:
    with pytest.raises(UnknownZone, match="is malformed; store it again"):
        Zone.from_json(cast("Any", data))


@pytest.mark.spec("S8", "IANA names")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Europe/Berln", "time zone 'Europe/Berln' is unknown; did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "time zone 'europe/berlin' is unknown; did you mean 'Europe/Berlin'?"),
        ("America/NewYork", "time zone 'America/NewYork' is unknown; did you mean 'America/New_York'?"),
        ("utc", "time zone 'utc' is unknown; did you mean 'UTC'?"),
        ("Mars/Phobos", "time zone 'Mars/Phobos' is unknown; use an IANA name such as 'Europe/Berlin' or 'UTC'"),
        ("", "time zone '' is unknown; use an IANA name such as 'Europe/Berlin' or 'UTC'"),
        ("../../etc/passwd", "time zone '../../etc/passwd' is unknown; use an IANA name"),
        ("Europe", "time zone 'Europe' is unknown; use an IANA name"),
        ("a\0b", "time zone 'a\\x00b' is unknown; use an IANA name"),
        ("x" * 100_000, f"time zone '{'x' * 64}…' is unknown; use an IANA name"),
        (5, "time zone '5' is unknown; use an IANA name"),
        (["UTC"], "time zone \"['UTC']\" is unknown; use an IANA name"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_unknown_zone_is_refused_with_a_suggestion(name: object, reason: str) -> None:
    with pytest.raises(UnknownZone, match=f"^{re.escape(reason)}"):
        cron("* * * * *", tz=cast("Any", name))
    with pytest.raises(UnknownZone, match=f"^{re.escape(reason)}"):
        packaged_zone(cast("Any", name))


@pytest.mark.spec("S8", "IANA names")
def test_every_name_of_the_packaged_data_is_known() -> None:
    names = zone_names()
    assert len(names) > 590
    assert all(packaged_zone(name).name == name for name in names)
