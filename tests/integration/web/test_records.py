"""The pages of records: desks, what waits at them, and their logs (SPEC E, U10)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from itinerary import Itinerary
from itinerary.records import RecordBatch, RecordScheduler
from tests.integration.observe.test_listener import ask
from tests.integration.web.visiting import run, text_of, visiting


def app_with_desk(
    name: str = "folio", timezone: Callable[[str], str] | None = None, **settings: Any
) -> tuple[Itinerary, RecordScheduler]:
    app = Itinerary(store="memory:", name="here", shutdown_grace_period="5s", **settings)
    desk = app.records(
        name, partition_by="hotel", timezone=timezone, schedule_interval="24h", callback_check_interval="24h"
    )

    @desk.handler
    async def work(batch: RecordBatch) -> None: ...

    return app, desk


@pytest.mark.spec("U10", "records")
def test_a_store_without_a_desk_explains_what_one_is() -> None:
    async def program() -> None:
        async with visiting(Itinerary(store="memory:", name="here")) as visitor:
            said = text_of(await visitor.get("/records"))
            assert "No desk has a log" in said
            assert "app.records(" in said
            assert (await visitor.get("/records/folio")).status_code == 404

    run(program())


@pytest.mark.spec("U10", "records")
def test_a_desk_shows_what_waits_who_holds_it_and_its_log_newest_first() -> None:
    async def program() -> None:
        app, desk = app_with_desk()
        async with visiting(app) as visitor:
            for number in range(60):
                hotel = "lisbon" if number % 3 else "tokyo"
                await desk.append("RecordCreated", record=f"F-{number}", hotel=hotel, data={"room": number})
            assert re.search(r"folio 60 60 60 0 0 0 ", text_of(await visitor.get("/records")))
            page = await visitor.get("/records/folio")
            said = text_of(page)
            assert "folio.pickup active" in said
            assert re.search(r"lisbon 40 40 0 0 0 ", said)
            assert re.search(r"All 60 60 0 0 0 ", said)
            numbers = [int(number) for number in re.findall(r'<tr><td class="number">(\d+)</td><td><time', page.text)]
            assert numbers == list(range(60, 10, -1))
            older = re.search(r'href="([^"]*before=[^"]*)">Older', page.text)
            assert older is not None
            rest = await visitor.get(older[1])
            numbers = [int(number) for number in re.findall(r'<tr><td class="number">(\d+)</td><td><time', rest.text)]
            assert numbers == list(range(10, 0, -1))
            assert ">Older<" not in rest.text

    run(program())


@pytest.mark.spec("U10", "records")
def test_a_partition_whose_time_zone_is_unknown_is_shown_until_it_is_known() -> None:
    is_down = True

    def zone_of(hotel: str) -> str:
        if is_down and hotel == "lisbon":
            raise ConnectionError("the directory is down")
        return "Europe/Lisbon"

    async def program() -> None:
        nonlocal is_down
        app, desk = app_with_desk(timezone=zone_of, node_heartbeat_interval="1s", health="127.0.0.1:0")
        async with visiting(app) as visitor:
            for hotel in ("lisbon", "tokyo"):
                await desk.append("RecordCreated", record=f"of {hotel}", hotel=hotel)
            await desk.process_scheduled_records()
            why = "Not scheduled: its time zone is unknown: ConnectionError: the directory is down"
            said = await visitor.until("/records/folio", lambda page: "Not scheduled" in page)
            assert said.count(why) == 1
            assert "1 not scheduled" in text_of(await visitor.get("/records"))
            told = (await visitor.get("/api/v1/records/folio", Accept="application/json")).json()["partitions"]
            assert {one["partition"]: one["stalled"] is None for one in told} == {"lisbon": False, "tokyo": True}
            status, health, _ = await asyncio.to_thread(ask, visitor.node, "/health/progress")
            assert (status, "ConnectionError: the directory is down" in health) == (503, True)
            is_down = False
            await visitor.until("/records/folio", lambda page: "Not scheduled" not in page)
            assert (await asyncio.to_thread(ask, visitor.node, "/health/progress"))[0] == 200

    run(program())


def test_events_are_found_by_partition_and_by_record() -> None:
    async def program() -> None:
        app, desk = app_with_desk()
        async with visiting(app) as visitor:
            for number in range(30):
                hotel = "lisbon" if number % 3 else "tokyo"
                await desk.append("RecordCreated", record=f"F-{number}", hotel=hotel)
            await desk.append("RecordCompleted", record="F-4", final_status="paid")
            of_tokyo = (await visitor.get("/records/folio?partition=tokyo")).text.partition('id="events"')[2]
            assert of_tokyo.count("<td>tokyo</td>") == 10
            assert "<td>lisbon</td>" not in of_tokyo
            said = text_of(await visitor.get("/records/folio?record=F-4"))
            assert "final_status paid" in said
            assert "RecordCreated" in said.partition("Events of record F-4")[2]
            assert "F-5" not in said
            assert "There are none." in text_of(await visitor.get("/records/folio?record=nobody"))

    run(program())


@pytest.mark.spec("Q2", "all output is escaped")
def test_what_events_say_is_text_and_is_cut() -> None:
    evil = "<script>alert(1)</script>"

    async def program() -> None:
        app, desk = app_with_desk(name="..<b>")
        async with visiting(app) as visitor:
            await desk.append("RecordCreated", record=evil, hotel='"><img src=x>', data={"x": evil * 5_000})
            for address in ("/records", f"/records/={b'..<b>'.hex()}"):
                page = await visitor.get(address)
                assert page.status_code == 200
                assert len(page.content) < 20_000
                assert "<script>alert" not in page.text
                assert "<img src=x>" not in page.text
                assert "..<b>" not in page.text
            page = await visitor.get(f"/records/={b'..<b>'.hex()}")
            link = re.search(r'href="([^"]*record=[^"]*)"', page.text)
            assert link is not None
            assert "1 1 0 0 0" in text_of(await visitor.get(link[1].replace("&amp;", "&")))

    run(program())
