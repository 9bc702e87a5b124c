"""Routes for single occurrences: show, trigger, cancel, adjust, replay."""

from __future__ import annotations

from typing import Final

from itinerary.errors import NodeError, NotFoundError
from itinerary.model.queries import ByRefQuery
from itinerary.model.rows import Ref
from itinerary.read.runs import RunDetail, run_detail
from itinerary.web.api.parameters import JobName, Key, RunName
from itinerary.web.api.request_bodies import AdjustBody, ReasonBody, ReplayBody, TriggerBody
from itinerary.web.api.responses import AdjustResponse, CancelResponse, RunRequestResponse, run_asked
from itinerary.web.api.routing import Sent, changing, key_of, read_body, reading
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import named_by_number
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["RUNS"]

_TAG: Final = "occurrences"


@reading("/runs/{run}", summary="Look at one occurrence", tag=_TAG)
async def show_run(request: Request, api: ApiState, run: RunName) -> RunDetail:
    """Its trail to the microsecond, its tasks with their attempts and output, and what it was started with. It is
    addressed by its number, its run id (`etl:1767225600`), or its id, which is found for as long as history keeps it.
    """
    run = await named_by_number(request, run)
    snapshot = await api.server.snapshot()
    return await run_detail(snapshot, await api.server.lookup.find(snapshot.store, await api.server.view(), run))


@changing("/jobs/{job}/trigger", summary="Have a job run now", tag=_TAG)
async def trigger_job(
    request: Request, api: ApiState, job: JobName, data: Sent[TriggerBody | None] = None, key: Key = None
) -> RunRequestResponse:
    """Any node may start it. It waits for its turn while another run of the job is in progress, unless `options` has an
    `overlap`."""
    body = read_body(TriggerBody, data)
    operator, row = await api.operate(request, job)
    asked = key_of(request, key, body)
    run = await operator.requests.trigger(
        row.name, key, body.options, body.reason, None if asked is None else asked.fingerprint
    )
    return run_asked(run)


@changing("/runs/{run}/cancel", summary="Ask an occurrence to end", tag=_TAG)
async def cancel_run(
    request: Request, api: ApiState, run: RunName, data: Sent[ReasonBody | None] = None, key: Key = None
) -> CancelResponse:
    """What has not started is cancelled at once, what runs within `kill_grace`. Asked twice, the first one counts."""
    body = read_body(ReasonBody, data)
    key_of(request, key, body)  # rejects an invalid key; cancelling twice is cancelling once in any case
    run = await named_by_number(request, run)
    operator = await api.operator(request)
    found = await api.server.lookup.find(operator.view.store, operator.view, run)
    before = await _cancelled_by(api, found.ref)
    if before is None and not await operator.requests.cancel(found, body.reason):
        raise RequestRefused(409, "Ended already", f"{found} has ended already")
    said = before or await _cancelled_by(api, found.ref)
    return CancelResponse(number=found.ref, run=found.run_id, cancelled_by=said or operator.by)


@changing("/runs/{run}/adjust", summary="Set values on an occurrence that has not started", tag=_TAG)
async def adjust_run(
    request: Request, api: ApiState, run: RunName, data: Sent[AdjustBody], key: Key = None
) -> AdjustResponse:
    """What is not named stays as it is. Who, when and why are kept. Asked twice, it is one adjustment."""
    body = read_body(AdjustBody, data, is_required=True)
    key_of(request, key, body)  # rejects an invalid key; setting the same values twice is setting them once in any case
    run = await named_by_number(request, run)
    operator = await api.operator(request)
    try:
        done = await operator.requests.adjust(run, body.options, body.reason)
    except NotFoundError:
        raise
    except NodeError as error:
        raise RequestRefused(409, "Started already", str(error)) from error
    return AdjustResponse(number=done.run.ref, run=done.run.run_id, values=dict(done.values))


@changing("/runs/{run}/replay", summary="Run an occurrence again, or some tasks of it", tag=_TAG)
async def replay_run(
    request: Request, api: ApiState, run: RunName, data: Sent[ReplayBody | None] = None, key: Key = None
) -> RunRequestResponse:
    """A new occurrence, linked to the old one. It waits for its turn while another run of the job is in progress."""
    body = read_body(ReplayBody, data)
    run = await named_by_number(request, run)
    operator = await api.operator(request)
    asked = key_of(request, key, body)
    again = await operator.requests.replay(
        run, body.reason, body.tasks, body.version, key, None if asked is None else asked.fingerprint
    )
    return run_asked(again)


RUNS: Final = (show_run, trigger_job, cancel_run, adjust_run, replay_run)


async def _cancelled_by(api: ApiState, ref: Ref) -> str | None:
    store = await api.server.store()
    row = (await store.read(ByRefQuery((ref,)))).get(ref)
    return None if row is None else row.cancelled_by
