"""Routes for job files: plan and apply.

`request_policy` defines what a request may contain, and what it may only send back unchanged from the store (Q3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from itinerary.config.configuration import SETTING_KEYS
from itinerary.core.timeline.definitions import read_definition
from itinerary.errors import ItineraryError
from itinerary.jobs.declaration import Declaration, DeclarationContext
from itinerary.jobs.job_file.declarations import declarations_in
from itinerary.jobs.job_file.document import Document, document_of
from itinerary.jobs.job_file.problems import unknown_key
from itinerary.jobs.job_file.settings import CALENDARS, JOBS, RECORDS
from itinerary.jobs.registration import anchor_of
from itinerary.model.definition import Definition
from itinerary.model.overrides import Overrides, laid_over, left_unset
from itinerary.model.policies import UpdatePolicy
from itinerary.model.scopes import Scope
from itinerary.operations.apply import ApplyOptions, apply_jobs
from itinerary.operations.job_updates import is_removed
from itinerary.read.snapshot import StoreSnapshot
from itinerary.schedules.durations import SECOND
from itinerary.web.api.parameters import Key
from itinerary.web.api.request_bodies import ApplyBody, JobsBody
from itinerary.web.api.responses import ApplyResponse
from itinerary.web.api.routing import Sent, by_whom, changing, key_of, read_body
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import json_of, read_answer
from itinerary.web.heavy.bounds import CHANGE_MAX, PLANNED_JOBS_MAX, check_compared
from itinerary.web.heavy.documents import SENT_FILE, unpack_document
from itinerary.web.heavy.works import PlanWork, ReadFileWork, SentJob
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.request_policy import check_definition
from itinerary.web.requests import Request

__all__ = ["FILES", "sent_jobs"]

_TAG: Final = "job files"


@changing("/plan", summary="Say which occurrences a job file would add and remove", tag=_TAG, needs=Scope.READ)
async def plan_file(request: Request, api: ApiState, data: Sent[ApplyBody]) -> Response[ApplyResponse]:
    """Nothing is changed. What is in the store and not in the file stays as it is, unless `remove` names it. At most
    31 days of a thousand jobs are compared."""
    data = read_body(ApplyBody, data, is_required=True)
    longest = api.server.heavy.bounds.window_for
    check_compared(data.window, longest, instead="give a number of occurrences, or use `itinerary plan`")
    work = PlanWork(
        jobs=await sent_jobs(request, api, data, None),
        policy=_policy(api, data),
        by=by_whom(request),
        window=data.window,
        remove=tuple(data.remove),
        reason=data.reason,
    )
    return await json_of(request, work)


@changing("/apply", summary="Bring the store to what a job file says, in one transaction", tag=_TAG, needs=Scope.ADMIN)
async def apply_file(request: Request, api: ApiState, data: Sent[ApplyBody], key: Key = None) -> ApplyResponse:
    """Applied twice, it changes nothing."""
    data = read_body(ApplyBody, data, is_required=True)
    check_compared(data.window, CHANGE_MAX, instead="use `itinerary apply`")
    return await _applied(request, api, data, key)


FILES: Final = (plan_file, apply_file)


async def sent_jobs(request: Request, api: ApiState, data: JobsBody, start: int | None) -> tuple[SentJob, ...]:
    """Return the jobs of a request as a store would keep them.

    Args:
        request: The request.
        api: The state of the API.
        data: The body of the request.
        start: When the jobs start, in microseconds; None: now, or their stored anchor.

    Raises:
        JobFileError: The jobs have mistakes. The error lists all of them.
        Refused: There are too many jobs, or a request may not contain them.
    """
    await api.server.view(fresh=True)  # a worker reads the store itself, and both must see the same jobs
    _check_body(data)
    if data.file is not None:
        document = unpack_document(await read_answer(request, ReadFileWork(text=data.file), bytes))
    else:
        document = _document(data)
    declared = await declared_in(api, document, partial(api.server.heavy.metered, by_whom(request)))
    if len(declared) > PLANNED_JOBS_MAX:
        raise RequestRefused(
            400,
            "Too much",
            f"{len(declared)} jobs were sent, and a request may look at {PLANNED_JOBS_MAX}; send fewer, or use the "
            "command line",
        )
    snapshot = await api.server.snapshot()

    def anchor(name: str) -> int:
        """Return the anchor of a bare duration: the first registration of its job (S4)."""
        row = api.names.find(snapshot, name)
        newest = None if row is None or start is not None else snapshot.timeline.newest(row.number)
        at = snapshot.now if start is None else start
        return at // SECOND if row is None or newest is None else anchor_of(newest.body, row)

    return tuple(
        SentJob(name=name, definition=one.body(anchor(name)), zones=one.zone_names()) for name, one in declared.items()
    )


def _policy(api: ApiState, data: ApplyBody) -> UpdatePolicy:
    return api.server.configuration.settings.update_policy if data.policy is None else data.policy


async def _applied(request: Request, api: ApiState, data: ApplyBody, key: str | None) -> ApplyResponse:
    operator = await api.operator(request)
    _check_body(data)
    declared = await declared_in(api, await asyncio.to_thread(_document, data))
    wish = ApplyOptions(policy=_policy(api, data), reason=data.reason, window=data.window, remove=tuple(data.remove))
    done = await apply_jobs(
        operator.view.store,
        declared,
        wish,
        by=operator.by,
        zone_data=api.server.node.rules.zone_data,
        is_plan=False,
        key=key_of(request, key, data),
        view=operator.view,
    )
    return ApplyResponse.of(done)


async def declared_in(
    api: ApiState, document: Document, run: Callable[..., Any] = asyncio.to_thread
) -> dict[str, Declaration]:
    """Return the declarations of the jobs in a request.

    A job of the store keeps its stored defaults: a request has no settings, and those of this node may be out of date.

    Args:
        api: The state of the API.
        document: The parsed job file.
        run: Calls a function in a thread.

    Raises:
        JobFileError: The jobs have mistakes. The error lists all of them.
        Refused: A request may not contain one of the jobs.
    """
    found = await run(_declarations, document, api.server.node.rules)
    snapshot = await api.server.snapshot()
    declared: dict[str, Declaration] = {}
    rules = api.server.node.rules
    for declaration in found:
        stored, is_current = _stored(api, snapshot, declaration.name)
        if stored is not None:
            declaration = declaration.under(_defaults_of(stored, rules.defaults))  # noqa: PLW2901 - the same job
        wanted = declaration.definition(registered_at=0)
        check_definition(declaration.name, wanted, stored if is_current else None, rules)
        declared[declaration.name] = declaration
    return declared


def _check_body(data: JobsBody) -> None:
    """Check that the body has exactly one form of the jobs. Raises Refused."""
    if (data.file is None) == (data.jobs is None) or (data.file is not None and data.calendars is not None):
        raise RequestRefused(
            400, "Bad request", "give `file`, the text of a job file, or `jobs` and `calendars` as objects"
        )


def _document(data: JobsBody) -> Document:
    if data.file is not None:
        return document_of(SENT_FILE, data.file)
    table: dict[str, Any] = {JOBS: data.jobs} | ({} if data.calendars is None else {CALENDARS: data.calendars})
    return Document("jobs", table, {})


def _declarations(document: Document, rules: DeclarationContext) -> list[Declaration]:
    problems = document.problems()
    for key in document.table:
        if key in SETTING_KEYS:
            problems.add((key,), "settings are not taken from a request; they are the node's own")
        elif key == RECORDS:
            problems.add((key,), "record schedulers are not taken from a request; use `itinerary apply`")
        elif key not in (JOBS, CALENDARS):
            problems.add((key,), unknown_key(key, (JOBS, CALENDARS)))
    found = declarations_in(document, problems, rules)
    problems.raise_if_any()
    return found


def _stored(api: ApiState, snapshot: StoreSnapshot, name: str) -> tuple[Definition | None, bool]:
    """Return the newest definition of a job, and whether the job still exists: it may have been removed."""
    try:
        job = api.names.job(snapshot, name)
        newest = snapshot.timeline.newest(job.number)
        return None if newest is None else read_definition(newest.body), not is_removed(snapshot.timeline, job)
    except ItineraryError:
        return None, False  # the job does not exist, or its definition cannot be read


def _defaults_of(stored: Definition, here: Overrides) -> Overrides:
    """Return the stored defaults of a job. For keys that the job sets itself, the defaults of this node apply."""
    return laid_over(left_unset(here, left_unset(here, stored.overrides)), stored.defaults)
