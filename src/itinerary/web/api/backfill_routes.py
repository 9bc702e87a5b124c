"""Routes for backfills: start one, and follow its progress."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import quote, urlencode
from uuid import uuid4

from itinerary.model.ids import job_id
from itinerary.model.rows import JobRow
from itinerary.model.states import FINAL
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.operations.idempotency import check_same
from itinerary.read.snapshot import at
from itinerary.web.api.backfills import TrackedBackfill
from itinerary.web.api.parameters import BackfillKey, JobName, Key, QueryParameter
from itinerary.web.api.request_bodies import BackfillBody, Instant, microseconds
from itinerary.web.api.responses import BackfillResponse
from itinerary.web.api.routing import Sent, changing, key_of, read_body, reading
from itinerary.web.api.state import ApiState
from itinerary.web.heavy.ask import read_answer
from itinerary.web.heavy.perform import MadeRow
from itinerary.web.heavy.previews import check_range, preview_of
from itinerary.web.heavy.works import MadeWork
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["BACKFILLS"]

_TAG: Final = "backfills"
_LISTED_MAX: Final = 1_000


@changing(
    "/jobs/{job}/backfill",
    summary="Run a job's instants of the past again, or for the first time",
    tag=_TAG,
    status=202,
)
async def backfill_job(
    request: Request, api: ApiState, job: JobName, data: Sent[BackfillBody], key: Key = None
) -> Response[BackfillResponse]:
    """This node works it off, so many at a time; `follow` says where to look how far it is. Sent again with the same
    key, to any node, it goes on where it was. A dry run only says what would be run."""
    data = read_body(BackfillBody, data, is_required=True)
    operator, row = await api.operate(request, job)
    asked = key_of(request, key, data)
    wish = BackfillWish(
        start=microseconds("from", data.start),
        end=microseconds("to", data.end),
        which=data.which,
        max_active=data.max_active,
        reason=data.reason,
        key=key if data.dry_run or key is not None else uuid4().hex,
        version=data.version,
        fingerprint=None if asked is None else asked.fingerprint,
    )
    planned = await preview_of(request, row.name, wish)
    if data.dry_run:
        return Response(_told(planned, None, None, (), None), status_code=200)
    assert wish.key is not None, "it has one, given or new"
    made = await _made(request, row, wish.start, wish.end, wish.key)
    for one in made:
        check_same(wish.key, one.fingerprint, wish.fingerprint)
    worked = await api.backfills.begin(
        row.name,
        wish.key,
        planned,
        lambda handle: operator.requests.backfill(row.name, wish, handle),
    )
    with suppress(RequestRefused):  # no worker or CPU time for a second count: the backfill has started anyway
        made = await _made(request, row, wish.start, wish.end, wish.key)
    return Response(_told(planned, wish, row, made, worked), status_code=202)


@reading("/jobs/{job}/backfills/{name}", summary="Look how far a backfill is", tag=_TAG)
async def show_backfill(
    request: Request,
    api: ApiState,
    job: JobName,
    name: BackfillKey,
    start: Annotated[Instant, QueryParameter("As it was asked for.", "from")],
    end: Annotated[Instant, QueryParameter("As it was asked for.", "to")],
) -> BackfillResponse:
    """By its key and its range, on any node: what the store has of it."""
    _, row = await api.job(job)
    first, last = microseconds("from", start), microseconds("to", end)
    check_range(last - first)
    made = await _made(request, row, first, last, name)
    worked = api.backfills.get(row.name, name)
    if not made and worked is None:
        raise RequestRefused(404, "Not found", "there is nothing of a backfill with this key in that range")
    wish = BackfillWish(start=first, end=last, key=name)
    instants = tuple(at(instant) for instant in sorted({one.instant for one in made}))
    far = worked.far if worked is not None else Backfill(job=row.name, instants=instants, looked_at=len(instants))
    return _told(far, wish, row, made, worked)


BACKFILLS: Final = (backfill_job, show_backfill)


async def _made(request: Request, job: JobRow, start: int, end: int, key: str) -> list[MadeRow]:
    """Return the rows that a backfill has created."""
    return await read_answer(request, MadeWork(job=job.number, start=start, end=end, key=key), list[MadeRow])


def _told(
    far: Backfill,
    wish: BackfillWish | None,
    job: JobRow | None,
    made: list[MadeRow] | tuple[()],
    worked: TrackedBackfill | None,
) -> BackfillResponse:
    return BackfillResponse(
        job=far.job,
        key=None if wish is None else wish.key,
        is_dry=far.is_dry and wish is None,
        looked_at=far.looked_at,
        instants=far.instants[:_LISTED_MAX],
        total=len(far.instants),
        made=len(made),
        ended=dict(Counter(row.status for row in made if row.status in FINAL)),
        is_worked_on=worked is not None and worked.is_worked_on,
        follow=None if wish is None or job is None else _address(job, wish),
        trouble=None if worked is None else worked.trouble,
    )


def _shown(instant: int) -> str:
    return at(instant).isoformat().replace("+00:00", "Z")


def _address(job: JobRow, wish: BackfillWish) -> str | None:
    if wish.key is None or "/" in wish.key or set(wish.key) == {"."}:
        return None  # such a key cannot be part of an address
    asked = urlencode({"from": _shown(wish.start), "to": _shown(wish.end)}, safe=":")
    return f"/api/v1/jobs/{job_id(job.name)}/backfills/{quote(wish.key, safe='')}?{asked}"
