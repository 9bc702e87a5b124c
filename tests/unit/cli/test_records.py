"""`itinerary records`: desks and their logs on a store on which no node runs (U3, E10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from itinerary.cli.main import app as command_line
from itinerary.operations.operator import local_user


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/itinerary.db"


def said(url: str, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_line, ["records", *words, "--store", url])
    return result.exit_code, (result.stdout or result.stderr).strip()


def told(url: str, *words: str) -> Any:
    code, output = said(url, *words, "--json")
    assert code == 0, output
    return msgspec.json.decode(output)


def created(url: str, record: str, partition: str, key: str | None = None) -> Any:
    more = () if key is None else ("--key", key)
    words = ("append", "folio", "RecordCreated", "--record", record, "--partition", partition)
    return told(url, *words, "--data", '{"guest": "Ada"}', *more)


@pytest.mark.spec("E10", "command line")
def test_events_are_appended_with_a_key_and_followed_from_any_number(url: str) -> None:
    assert created(url, "F-1", "lisbon", "import 1")["sequence"] == 1
    assert created(url, "F-1", "lisbon", "import 1")["sequence"] == 1
    assert created(url, "F-2", "tokyo")["sequence"] == 2
    words = ("append", "folio", "CallbackScheduled", "--record", "F-1", "--target-time", "2026-03-01T09:00:00+01:00")
    assert said(url, *words) == (0, "CallbackScheduled of F-1 is event 3 of folio")
    code, output = said(url, "follow", "folio", "--after", "1", "--until-now", "--json")
    assert code == 0
    events = [msgspec.json.decode(line) for line in output.splitlines()]
    assert [(event["sequence"], event["kind"], event["partition"]) for event in events] == [
        (2, "RecordCreated", "tokyo"),
        (3, "CallbackScheduled", "lisbon"),
    ]
    assert events[1]["fields"] == {"target_time": "2026-03-01T08:00:00Z"}
    shown = said(url, "follow", "folio", "--until-now")[1].splitlines()
    assert shown[0].endswith(f'lisbon  RecordCreated  F-1  data={{"guest":"Ada"}}  by {local_user()}')
    assert events[0]["by"] == local_user()


@pytest.mark.spec("U3", "records")
def test_desks_are_listed_and_their_partitions_shown(url: str) -> None:
    assert CliRunner().invoke(command_line, ["migrate", "--store", url]).exit_code == 0
    assert said(url) == (0, "no desk has a log in this store")
    created(url, "F-1", "lisbon")
    created(url, "F-2", "tokyo")
    told(url, "append", "folio", "VerificationScheduled", "--record", "F-2", "--check-time", "2026-03-01T09:00:00Z")
    told(url, "append", "folio", "RecordCompleted", "--record", "F-1", "--final-status", "paid")
    assert told(url) == [{"desk": "folio", "sequence": 4, "partitions": 2, "held": 0}]
    lisbon, tokyo = told(url, "show", "folio")
    assert (lisbon["records"], lisbon["new"], lisbon["sequence"], lisbon["holder"]) == (1, 0, 4, None)
    assert (tokyo["partition"], tokyo["new"], tokyo["verifications"]) == ("tokyo", 1, 1)
    table = said(url, "show", "folio")[1].splitlines()
    assert table[0].split()[:4] == ["partition", "records", "new", "queue"]
    assert len(table) == 3
    assert "folio" in said(url)[1]


@pytest.mark.spec("U3", "records")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("show", "folios"), "no desk 'folios' has a log in this store"),
        (("append", "folio", "RecordQueued", "--record", "F-1"), "is written by the desk itself"),
        (("append", "folio", "RecordCompleted", "--record", "F-9"), "record 'F-9' is not known to desk 'folio'"),
        (("append", "folio", "RecordCreated", "--record", "F-9", "--data", "{"), "is not JSON"),
        (("append", "folio", "RecordCreated", "--record", "F-1", "--partition", "x"), "lives in partition 'lisbon'"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(url: str, words: tuple[str, ...], why: str) -> None:
    created(url, "F-1", "lisbon")
    code, output = said(url, *words)
    assert code == 1
    assert output.startswith("itinerary: ")
    assert why in output


def test_a_desk_with_one_partition_need_not_be_told_which(url: str) -> None:
    words = ("append", "mail", "RecordCreated", "--record")
    assert said(url, *words, "M-1")[0] == 1, "nobody knows yet how it is partitioned"
    told(url, *words, "M-1", "--partition", "all")
    assert told(url, *words, "M-2")["sequence"] == 2
