"""Our reading of TZif files beside Python's, for every zone there is."""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from itinerary.schedules import Zone, packaged_zone
from itinerary.schedules.instants import EARLIEST, LATEST
from itinerary.schedules.tzif import read_tzif
from itinerary.schedules.zones import zone_names
from tests.unit.schedules.helpers import zone_info

NAMES = sorted(zone_names())
LETTERS = sorted({name[:6] for name in NAMES})
RULES = [
    "EST5EDT,M3.2.0,M11.1.0",
    "AEST-10AEDT,M10.1.0,M4.1.0/3",
    "IST-1GMT0,M10.5.0,M3.5.0/1",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "<+0330>-3:30<+0430>,J79/24,J263/24",
    "AAA3BBB,J60/2,J300/2:30:15",
    "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
    "AAA+5:45",
    "UTC0",
]


def offset_at(zone: Zone, instant: int) -> int:
    return zone.offsets[bisect_right(zone.starts, instant) - 1]


def offset_of(wall: ZoneInfo, instant: int) -> int:
    offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=instant)).astimezone(wall).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


@pytest.mark.spec("S8", "IANA names")
@pytest.mark.parametrize("beginning", LETTERS)
def test_every_zone_has_the_offsets_that_zoneinfo_reads_from_the_same_file(beginning: str) -> None:
    for name in (name for name in NAMES if name[:6] == beginning):
        zone, wall = packaged_zone(name), zone_info(name)
        edges = [start + around for start in zone.starts for around in (-1, 0, 1)]
        others = range(EARLIEST + 12_345, LATEST, (LATEST - EARLIEST) // max(1_000 - len(edges), 100))
        for instant in (EARLIEST, LATEST - 1, *edges, *others):
            if EARLIEST <= instant < LATEST:
                assert offset_at(zone, instant) == offset_of(wall, instant), (name, instant)


@pytest.mark.spec("S8", "shifts of any size")
def test_no_zone_goes_forward_again_before_it_has_caught_up_with_itself() -> None:
    """`repeat = second` rests on this: what is repeated is repeated within one segment."""
    for name in NAMES:
        zone = packaged_zone(name)
        reached = zone.starts[0] + zone.offsets[0]
        for end, offset in zip(zone.ends, zone.offsets, strict=True):
            assert end + offset >= reached, f"{name} shifts again at {end} before it is back at {reached}"
            reached = max(reached, end + offset)


@pytest.mark.spec("S8", "shifts of any size")
def test_every_table_begins_before_1900_ascends_and_changes_at_each_step() -> None:
    for name in NAMES:
        zone = packaged_zone(name)
        assert zone.starts[0] < EARLIEST
        assert all(earlier < later for earlier, later in pairwise(zone.starts))
        assert all(earlier != later for earlier, later in pairwise(zone.offsets))
        assert Zone.from_json(zone.to_json()) == zone


def tzif(rule: str) -> bytes:
    """A file without transitions: everything comes from the rule."""
    header = struct.pack(">4s1s15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = header + struct.pack(">lBB", 0, 0, 0) + b"LMT\0"
    return block + block + f"\n{rule}\n".encode()


@pytest.mark.spec("S8", "shifts of any size")
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_for_the_future_means_what_zoneinfo_takes_it_to_mean(rule: str) -> None:
    wall = ZoneInfo.from_file(io.BytesIO(tzif(rule)))
    zone = Zone.from_transitions("X", read_tzif(tzif(rule), until_year=2200))
    if "," not in rule:
        assert zone.offsets == (0,), "without transitions the first type holds; real files say the same twice"
        return
    later = [start for start in zone.starts if start > EARLIEST + 366 * 86_400]
    for instant in (start + around for start in later for around in (-1, 0, 1)):
        if instant < LATEST:
            assert offset_at(zone, instant) == offset_of(wall, instant), instant


@pytest.mark.spec("S8", "shifts of any size")
def test_days_counted_from_nought_include_29_february() -> None:
    """POSIX's third way to name a day. `zoneinfo` is a day early with it, so the days are written out here."""
    zone = Zone.from_transitions("X", read_tzif(tzif("AAA0BBB,59/0,J60/5"), until_year=2200))
    starts = {datetime.fromtimestamp(start, UTC).isoformat() for start in zone.starts}
    assert {"2026-03-01T00:00:00+00:00", "2026-03-01T04:00:00+00:00"} <= starts
    assert {"2028-02-29T00:00:00+00:00", "2028-03-01T04:00:00+00:00"} <= starts


@pytest.mark.spec("S8", "shifts of any size")
@pytest.mark.parametrize("rule", ["EST5EDT,0/0,J365/25", "XXX3EDT4,0/0,J365/23"])
def test_summer_time_all_year_is_one_offset(rule: str) -> None:
    zone = Zone.from_transitions("X", read_tzif(tzif(rule), until_year=2200))
    assert {offset_at(zone, instant) for instant in range(EARLIEST + 366 * 86_400, LATEST, 40_000_000)} == {-14_400}
    assert Zone.from_json(zone.to_json()) == zone


@pytest.mark.spec("S8", "IANA names")
@pytest.mark.parametrize("data", [tzif("UTC0").replace(b"TZif", b"ABCD"), tzif("UTC0").replace(b"TZif2", b"TZif\0")])
def test_a_file_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a TZif file of version 2 or later"):
        read_tzif(data, until_year=2200)


@pytest.mark.spec("S8", "IANA names")
def test_a_rule_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="POSIX time zone rule 'A,B,C' cannot be read"):
        read_tzif(tzif("A,B,C"), until_year=2200)
