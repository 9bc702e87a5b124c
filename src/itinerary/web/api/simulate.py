"""The route that simulates jobs, those of a request or of the store (U5)."""

from __future__ import annotations

from typing import Final

from itinerary.forecast import Forecast
from itinerary.model.scopes import Scope
from itinerary.schedules.durations import SECOND, parse_duration
from itinerary.web.api.job_files import sent_jobs
from itinerary.web.api.request_bodies import SimulateBody, microseconds
from itinerary.web.api.routing import Sent, changing, read_body
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import json_of
from itinerary.web.heavy.works import SimulateWork
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["FORECASTS"]


@changing("/simulate", summary="Say what will happen, before it does", tag="forecast", needs=Scope.READ)
async def simulate(request: Request, api: ApiState, data: Sent[SimulateBody | None] = None) -> Response[Forecast]:
    """Load, overlaps, clock changes, and what an outage would do. Nothing is run, and nothing is written. At most 31
    days of a thousand jobs, and a hundred thousand occurrences, are played through."""
    body = read_body(SimulateBody, data)
    start = None if body.start is None else microseconds("from", body.start) // SECOND * SECOND
    lasting = parse_duration(body.lasting, minimum=SECOND) // SECOND * SECOND
    api.server.heavy.bounds.check_window("for", lasting, instead="run `itinerary simulate`")
    is_sent = body.file is not None or body.jobs is not None
    if is_sent and body.pattern is not None:
        raise RequestRefused(
            400, "Bad request", "pattern: goes with the jobs of the store, and not with some that are sent"
        )
    work = SimulateWork(
        start=start,
        lasting=lasting,
        jobs=await sent_jobs(request, api, body, start) if is_sent else None,
        pattern=body.pattern,
        outages=tuple(
            (microseconds("from", one.start) // SECOND * SECOND, microseconds("to", one.end) // SECOND * SECOND)
            for one in body.outages
        ),
        takes={job: parse_duration(text) for job, text in body.takes.items()},
    )
    return await json_of(request, work)


FORECASTS: Final = (simulate,)
