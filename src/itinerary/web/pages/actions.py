"""Actions: a page with a form that explains the action, and its result when the form is sent.

    GET  /actions/pause?job=<id>          the form; the script shows it in a dialog instead
    POST /actions/pause?job=<id>          performs the action and redirects to the job, with a message
    GET  /actions/replay?run=<number>     the same, for an occurrence
    GET  /backfills/<key>                 the progress of a backfill

An action that is impossible shows the form again, with the error and all input. The script sends a header and receives
the next address instead of a redirect: it would otherwise fetch that page, and the user would not see the message.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final, assert_never

from msgspec.structs import replace

from itinerary.errors import ItineraryError, NotFoundError, PermissionDeniedError, StoreError
from itinerary.model.scopes import Scope
from itinerary.operations.backfill import Backfill
from itinerary.read.snapshot import StoreSnapshot, at
from itinerary.schedules.durations import SECOND
from itinerary.web.actions.definitions import ACTIONS, ADJUSTED_FIELDS, Action, ConfirmedAction, TargetKind, wish_of
from itinerary.web.actions.flash import leave_notice
from itinerary.web.actions.form import REASON_MAX, FormFields, new_key, read_form
from itinerary.web.actions.targets import Subject, find_backfill, find_job, find_run
from itinerary.web.guard import caller_of
from itinerary.web.heavy.previews import preview_of
from itinerary.web.http_responses import Redirect, Response
from itinerary.web.live import RenderedPage
from itinerary.web.pages.filters import job_url
from itinerary.web.pages.rendering import framed, shown
from itinerary.web.pages.templates import drawn
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, page

__all__ = ["ACTION_PAGES"]

_DIALOG: Final = "x-itinerary-dialog"
"""The header by which the script reports that the form is in a dialog."""
_COMMON: Final = frozenset({"_csrf", "key", "reason"})
_CHOICES: Final = 12
"""The number of upcoming instants that the skip form offers."""
_LISTED_MAX: Final = 100
"""The maximum number of listed instants of a preview."""
_DAY: Final = 86_400 * SECOND
_MINUTE: Final = 60 * SECOND


@page("/actions/{what}", needs=Scope.OPERATE)
async def ask(request: Request, what: str) -> AnyResponse:
    """The form."""
    return await _asked(request, what, Scope.OPERATE)


@page("/actions/{what}", needs=Scope.OPERATE, method="POST")
async def do(request: Request, what: str) -> AnyResponse:
    """What was typed into it."""
    return await _done(request, what, Scope.OPERATE)


@page("/actions/remove", needs=Scope.ADMIN)
async def ask_to_remove(request: Request) -> AnyResponse:
    """The form of what changes the rules."""
    return await _asked(request, "remove", Scope.ADMIN)


@page("/actions/remove", needs=Scope.ADMIN, method="POST")
async def remove(request: Request) -> AnyResponse:
    """What was typed into it."""
    return await _done(request, "remove", Scope.ADMIN)


@page("/backfills/{key}", needs=Scope.READ)
async def backfill(request: Request, key: str) -> AnyResponse:
    """How far a backfill is."""

    async def draw(_: StoreSnapshot) -> RenderedPage:
        seen = request.app.server.backfills.seen(key)
        if seen is None:
            raise NotFoundError(
                "this node knows of no such backfill: it was another's, or the node was started again since; "
                "what it has run stands in the history of its job"
            )
        part = drawn("actions/backfill.html", seen=seen, start=at(seen.wish.start), end=at(seen.wish.end))
        return RenderedPage(title=f"Backfill of {seen.far.job}", parts={"backfill": part})

    return await shown(request, draw)


ACTION_PAGES = (ask, do, ask_to_remove, remove, backfill)


async def _asked(request: Request, what: str, scope: Scope) -> AnyResponse:
    action = _action(what, scope)
    snapshot = await request.app.server.snapshot()
    subject = await _subject(request, snapshot, action)
    return _form(request, snapshot, what, subject, FormFields({"instant": [request.query_params.get("instant", "")]}))


async def _done(request: Request, what: str, scope: Scope) -> AnyResponse:
    action, server = _action(what, scope), request.app.server
    typed = await read_form(request, action.fields | _COMMON)
    key = typed.key
    snapshot = await server.snapshot()
    subject = await _subject(request, snapshot, action)
    try:
        operator = await server.operator(caller_of(request))
        if typed.text("do") == "preview":
            planned = await preview_of(request, subject.name, replace(wish_of(typed), key=None))
            return _form(request, snapshot, what, subject, typed, planned=planned)
        preview = partial(preview_of, request, subject.name)
        doing = ConfirmedAction(operator, subject, typed, server.backfills, preview)
        onward = await action.do(doing)
    except StoreError as error:
        server.failed(error)
        why = f"The store cannot be reached: {error}. Send it again when it can: sent twice, it is one change."
        return _form(request, snapshot, what, subject, typed, why=why, status=503)
    except (ItineraryError, RequestRefused) as error:
        status = _status_of(error)
        return _form(request, snapshot, what, subject, typed, why=str(error), status=status)
    request.app.log.info("web.changed", what=what, about=subject.name, by=caller_of(request).name, key=key)
    leave_notice(request, ": ".join([action.done.format(subject.name), *doing.notes]))
    if _DIALOG in request.headers:
        return Response({"go": onward})
    return Redirect(onward)


def _action(what: str, scope: Scope) -> Action:
    action = ACTIONS.get(what)
    if action is None or action.needs is not scope:
        raise RequestRefused(404, "Not found", f"there is no such action; there are {', '.join(ACTIONS)}")
    return action


async def _subject(request: Request, snapshot: StoreSnapshot, action: Action) -> Subject:
    """Return the target that the address names. Raises NotFoundError, or Refused."""
    said = request.query_params.all(action.about.value)
    unknown = sorted(set(request.query_params) - {action.about.value, "instant"})
    if len(said) != 1 or unknown:
        why = f"the address of this action names a {action.about.value}, once, and nothing else"
        raise RequestRefused(400, "Bad request", why)
    match action.about:
        case TargetKind.RUN:
            return await find_run(snapshot, said[0])
        case TargetKind.BACKFILL:
            return find_backfill(request.app.server, snapshot, said[0])
        case TargetKind.JOB:
            return find_job(request.app.server, snapshot, said[0])
        case _:
            assert_never(action.about)


def _form(
    request: Request,
    snapshot: StoreSnapshot,
    what: str,
    subject: Subject,
    typed: FormFields,
    *,
    why: str | None = None,
    planned: Backfill | None = None,
    status: int = 200,
) -> AnyResponse:
    action = ACTIONS[what]
    part = drawn(
        "actions/form.html",
        what=what,
        action=action,
        subject=subject,
        sentence=action.sentence.format(subject.name),
        address=f"/actions/{what}",
        typed=typed,
        why=why,
        planned=planned,
        listed=() if planned is None else planned.instants[:_LISTED_MAX],
        csrf=caller_of(request).csrf,
        key=typed.text("key") or new_key(),
        tasks=subject.tasks(snapshot) if what == "replay" else [],
        adjusted=ADJUSTED_FIELDS,
        choices=_choices(snapshot, subject, typed) if what == "skip" else [],
        since=_local(at((snapshot.now - _DAY) // _MINUTE * _MINUTE)),
        until=_local(at(snapshot.now // _MINUTE * _MINUTE)),
        reason_max=REASON_MAX,
        job_address=job_url(subject.job.name),
    )
    return framed(request, RenderedPage(title=action.title.format(subject.name), parts={"ask": part}, status=status))


def _choices(snapshot: StoreSnapshot, subject: Subject, typed: FormFields) -> list[datetime]:
    """Return the next instants, and the one that the address names."""
    try:
        coming = [at(instant) for instant in snapshot.next_runs(subject.job.number, _CHOICES)]
        named = typed.instant("instant", "instant")
    except ItineraryError:
        return []
    if named is not None and at(named) not in coming:
        coming.append(at(named))
    return sorted(coming)


def _local(instant: datetime) -> str:
    """Format an instant for a date and time field, in UTC."""
    return f"{instant:%Y-%m-%dT%H:%M:%S}"


def _status_of(error: ItineraryError | RequestRefused) -> int:
    match error:
        case RequestRefused():
            return error.status
        case PermissionDeniedError():
            return 403
        case _:
            return 400
