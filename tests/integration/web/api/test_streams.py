"""What changes, live: everything once, in order, and from where somebody was cut off."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest

from itinerary.web.api import feed, records
from tests.integration.web.api.served import Answer, Served
from tests.integration.web.api.test_looking import ended

EVENTS = "/api/v1/events"
_PATIENCE = 60


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_LOOK_EVERY", 0.02)
    monkeypatch.setattr(records, "_LOOK_AGAIN_AFTER", 0.02)


def told(following: Future[Answer]) -> list[dict[str, Any]]:
    """The events of a stream, each with its name and id."""
    answer = following.result(_PATIENCE)
    assert answer.status == 200, answer
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for message in answer.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in message.split("\n") if line and not line.startswith(":"))
        if lines:
            found.append({"event": lines["event"], "id": lines.get("id"), "data": json.loads(lines["data"])})
    return found


def begin(served: Served, until: bytes, last: str | None = None) -> Future[Answer]:
    """Follow, from when it has begun."""
    headers = None if last is None else {"last-event-id": last}
    first = served.begin(EVENTS, until=b": still there", headers=None)
    first.result(_PATIENCE)  # by now the store is looked at
    return served.begin(EVENTS, until=until, headers=headers)


@pytest.mark.spec("U10", "live")
def test_a_pause_and_a_run_are_told_once_and_in_order(fresh: Served) -> None:
    following = begin(fresh, until=b"event: ended")
    fresh.post("/api/v1/jobs/etl.2/pause", {"reason": "<script>"})
    number = fresh.post("/api/v1/jobs/etl/trigger")["number"]
    found = told(following)
    assert [one["event"] for one in found] == ["job", "began", "ended"]
    assert (found[0]["data"]["job"], found[0]["data"]["kind"], found[0]["data"]["reason"]) == (
        "etl.2",
        "pause",
        "<script>",
    )
    assert [one["data"]["number"] for one in found[1:]] == [number, number]
    assert found[2]["data"]["state"] == "completed"


@pytest.mark.spec("U10", "live")
def test_who_was_cut_off_gets_what_came_meanwhile(fresh: Served) -> None:
    following = begin(fresh, until=b"event: job")
    fresh.post("/api/v1/jobs/etl/pause", {})
    (first,) = told(following)
    number = fresh.post("/api/v1/jobs/report/trigger")["number"]
    fresh.run(ended(fresh, number))
    fresh.post("/api/v1/jobs/etl/resume", {})
    found = told(fresh.begin(EVENTS, until=b'"resume"', headers={"last-event-id": first["id"]}))
    assert {one["event"] for one in found} >= {"began", "ended", "job"}
    assert [one["data"]["kind"] for one in found if one["event"] == "job"] == ["resume"]
    assert len({one["id"] for one in found}) == len(found)


@pytest.mark.spec("U10", "live")
def test_who_comes_from_another_node_is_told_to_read_anew_and_gets_the_changes_of_jobs(fresh: Served) -> None:
    following = begin(fresh, until=b"event: job")
    fresh.post("/api/v1/jobs/etl/pause", {})
    (first,) = told(following)
    revision = first["data"]["revision"]
    elsewhere = f"00000000-77-{revision - 1}"
    found = told(fresh.begin(EVENTS, until=b'"pause"', headers={"last-event-id": elsewhere}))
    assert [one["event"] for one in found] == ["reset", "job"]
    for nonsense in ("x", "1-2-3-4", "a-b-c", "-", "9" * 200):
        found = told(fresh.begin(EVENTS, until=b"reset", headers={"last-event-id": nonsense}))
        assert [one["event"] for one in found] == ["reset"]


@pytest.mark.spec("E10", "live")
def test_a_log_is_followed_from_any_number(fresh: Served) -> None:
    address = "/api/v1/records/folio"
    for number in range(3):
        event = {"kind": "RecordCreated", "record": f"F-{number}", "partition": "lisbon"}
        fresh.post(f"{address}/events", event)
    found = told(fresh.begin(f"{address}/follow?after=1", until=b"id: 3"))
    assert [one["data"]["record"] for one in found] == ["F-1", "F-2"]
    following = fresh.begin(f"{address}/follow", until=b"id: 4", headers={"last-event-id": "3"})
    fresh.post(f"{address}/events", {"kind": "RecordCompleted", "record": "F-1"})
    (last,) = told(following)
    assert (last["id"], last["data"]["kind"]) == ("4", "RecordCompleted")
    assert fresh.ask("GET", "/api/v1/records/nope/follow").status == 404
