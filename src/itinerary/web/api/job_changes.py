"""Routes that change a job: its status or its definition."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from itinerary.core.recovery.pause import HeldBacklog
from itinerary.model.scopes import Scope
from itinerary.operations.job_updates import DefinitionChange, Diff
from itinerary.schedules import Schedule, cron, from_json
from itinerary.schedules.instants import MICROSECONDS
from itinerary.web.api.parameters import JobName, Key
from itinerary.web.api.request_bodies import (
    PauseBody,
    ReasonBody,
    ResumeBody,
    RollbackBody,
    SkipBody,
    UpdateBody,
    microseconds,
)
from itinerary.web.api.responses import ChangeResponse, changed
from itinerary.web.api.routing import Sent, changing, key_of, read_body
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.bounds import CHANGE_MAX, check_compared
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["CHANGES"]

_TAG: Final = "changes"


@changing("/jobs/{job}/pause", summary="Skip a job's instants, until it is resumed", tag=_TAG)
async def pause_job(
    request: Request, api: ApiState, job: JobName, data: Sent[PauseBody | None] = None, key: Key = None
) -> ChangeResponse:
    """None of them is recovered. What was to run before and has not started is held."""
    body = read_body(PauseBody, data)
    operator, row = await api.operate(request, job)
    until = None if body.until is None else microseconds("until", body.until)
    made = await operator.changes.pause(row.name, body.reason, until, key_of(request, key, body))
    return replace(changed(row, made), held=len(await operator.changes.held(row.name)))


@changing("/jobs/{job}/resume", summary="End a pause", tag=_TAG)
async def resume_job(
    request: Request, api: ApiState, job: JobName, data: Sent[ResumeBody | None] = None, key: Key = None
) -> ChangeResponse:
    """Without one it has no effect. What it held runs, or is skipped."""
    body = read_body(ResumeBody, data)
    operator, row = await api.operate(request, job)
    request_key = key_of(request, key, body)
    made, count = await operator.changes.resume(row.name, body.reason, request_key, backlog=body.backlog)
    counts = {"skipped" if body.backlog is HeldBacklog.SKIP else "released": count}
    return replace(changed(row, made), **counts)


@changing("/jobs/{job}/stop", summary="Expect nothing of a job from now on", tag=_TAG)
async def stop_job(
    request: Request, api: ApiState, job: JobName, data: Sent[ReasonBody | None] = None, key: Key = None
) -> ChangeResponse:
    """Until it is started again. What runs finishes."""
    body = read_body(ReasonBody, data)
    operator, row = await api.operate(request, job)
    return changed(row, await operator.changes.stop(row.name, body.reason, key_of(request, key, body)))


@changing("/jobs/{job}/start", summary="Expect a job's instants again", tag=_TAG)
async def start_job(
    request: Request, api: ApiState, job: JobName, data: Sent[ReasonBody | None] = None, key: Key = None
) -> ChangeResponse:
    """What it would have had meanwhile is not made up for."""
    body = read_body(ReasonBody, data)
    operator, row = await api.operate(request, job)
    return changed(row, await operator.changes.start(row.name, body.reason, key_of(request, key, body)))


@changing("/jobs/{job}/remove", summary="Take a job away", tag=_TAG, needs=Scope.ADMIN)
async def remove_job(
    request: Request, api: ApiState, job: JobName, data: Sent[ReasonBody | None] = None, key: Key = None
) -> ChangeResponse:
    """What has not started is cancelled, what runs finishes, and its history stays."""
    body = read_body(ReasonBody, data)
    operator, row = await api.operate(request, job)
    return changed(row, await operator.changes.remove(row.name, body.reason, key_of(request, key, body)))


@changing("/jobs/{job}/skip", summary="Pass over one occurrence that is to come", tag=_TAG)
async def skip_instant(
    request: Request, api: ApiState, job: JobName, data: Sent[SkipBody], key: Key = None
) -> ChangeResponse:
    """It is recorded as skipped when its time comes."""
    data = read_body(SkipBody, data, is_required=True)
    operator, row = await api.operate(request, job)
    at = microseconds("instant", data.instant)
    return changed(row, await operator.changes.skip(row.name, at, data.reason, key_of(request, key, data)))


@changing("/jobs/{job}/update", summary="Make the next version of a job", tag=_TAG, needs=Scope.ADMIN)
async def update_job(request: Request, api: ApiState, job: JobName, data: Sent[UpdateBody], key: Key = None) -> Diff:
    """Its schedule, its options, or both; which instants that adds, removes and keeps. What it runs stays as it is."""
    data = read_body(UpdateBody, data, is_required=True)
    check_compared(data.window, CHANGE_MAX, instead="use `itinerary update`")
    operator, row = await api.operate(request, job)
    change = DefinitionChange(
        schedule=None if data.schedule is None else _schedule(data.schedule),
        options=data.options,
        policy=data.policy,
        from_version=data.from_version,
        effective_from=None if data.effective_from is None else _whole_second(data),
        window=data.window,
        reason=data.reason,
    )
    return await api.updates(operator).update(
        row.name, change, is_plan=data.dry_run, key=None if data.dry_run else key_of(request, key, data)
    )


@changing("/jobs/{job}/rollback", summary="Make a version that says what an old one said", tag=_TAG, needs=Scope.ADMIN)
async def roll_back_job(
    request: Request, api: ApiState, job: JobName, data: Sent[RollbackBody], key: Key = None
) -> Diff:
    """Tasks and all."""
    data = read_body(RollbackBody, data, is_required=True)
    check_compared(data.window, CHANGE_MAX, instead="use `itinerary update`")
    operator, row = await api.operate(request, job)
    change = DefinitionChange(
        to_version=data.to_version,
        policy=data.policy,
        from_version=data.from_version,
        effective_from=None if data.effective_from is None else _whole_second(data),
        window=data.window,
        reason=f"rolled back to version {data.to_version}" if data.reason is None else data.reason,
    )
    return await api.updates(operator).update(
        row.name, change, is_plan=data.dry_run, key=None if data.dry_run else key_of(request, key, data)
    )


CHANGES: Final = (
    pause_job,
    resume_job,
    stop_job,
    start_job,
    remove_job,
    skip_instant,
    update_job,
    roll_back_job,
)


def _schedule(given: str | dict[str, Any]) -> Schedule:
    return cron(given) if isinstance(given, str) else from_json(given)


def _whole_second(data: UpdateBody | RollbackBody) -> int:
    assert data.effective_from is not None, "asked for only if it is given"
    found = microseconds("effective_from", data.effective_from)
    if found % MICROSECONDS:
        raise RequestRefused(400, "Bad request", "effective_from: instants are whole seconds")
    return found
