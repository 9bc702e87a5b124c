"""`itinerary show` and `history`: a job or an occurrence with all details, and the outcomes of a job's occurrences.

`show` takes the name of a job, or an occurrence by its number, its id or its run id. A name that is both is the job.
With `--last` it shows the last run of a job, with its output.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from itinerary.cli.commands import Argument, Commands, Option
from itinerary.cli.completion import complete_job
from itinerary.cli.job_page import print_job
from itinerary.cli.list import Limit, looked_at
from itinerary.cli.options import AsJson, Store, errors_told
from itinerary.cli.output import print_json
from itinerary.cli.run_pages import print_history, print_run
from itinerary.errors import NotFoundError
from itinerary.model.states import OccurrenceState
from itinerary.model.text import shown
from itinerary.read.job_detail import job_detail
from itinerary.read.run_lookup import RunLookup, RunReference
from itinerary.read.runs import history_page, run_detail
from itinerary.read.snapshot import StoreSnapshot
from itinerary.read.timeline_view import StoreView

__all__ = ["add_showing"]


def add_showing(app: Commands) -> None:
    """Add these commands to the app."""
    app.add(show)
    app.add(history)


def show(
    what: Annotated[
        str,
        Argument(
            metavar="JOB|RUN",
            help="A job, or an occurrence: its number, its id, or etl:1767225600.",
            offers=complete_job,
        ),
    ],
    last: Annotated[bool, Option("--last", help="Show the last run of the job, with its output.")] = False,  # noqa: FBT002 - a switch
    limit: Limit = 5,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """Show a job, or one of its occurrences, with all known details."""

    async def look(snapshot: StoreSnapshot) -> None:
        run = await (_last_run(snapshot, what) if last else _run_called(snapshot, what))
        if run is not None:
            detail = await run_detail(snapshot, run)
            if as_json:
                print_json(detail)
            else:
                print_run(snapshot, detail)
            return
        found = await job_detail(snapshot, snapshot.job(what), limit=limit)
        if as_json:
            print_json(found)
        else:
            print_job(snapshot, found)

    with errors_told():
        looked_at(store, look)


async def _last_run(snapshot: StoreSnapshot, job: str) -> RunReference:
    """Return the last run of a job that ended; if none has, one that has not.

    Raises:
        NotFoundError: The job has no run.
    """
    page = await history_page(snapshot, snapshot.job(job), limit=1)
    if not (found := [*page.runs, *page.active]):
        raise NotFoundError(f"job {shown(job)} has no run on record; `itinerary trigger {job}` starts one")
    return await RunLookup().find(snapshot.store, await StoreView.of(snapshot.store), str(found[0].number))


async def _run_called(snapshot: StoreSnapshot, what: str) -> RunReference | None:
    """Return the occurrence of that id or run id. None if a job has that name, or the text cannot be an id."""
    names = {row.name for row in snapshot.timeline.jobs.values()}
    job, _, seconds = what.rpartition(":")
    is_run = (job in names and seconds.isdigit()) or what.removeprefix("#").isdigit() or _is_id(what)
    if what in names or not is_run:
        return None
    return await RunLookup().find(snapshot.store, await StoreView.of(snapshot.store), what)


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def history(
    job: Annotated[str, Argument(metavar="JOB", help="The name of a job.", offers=complete_job)],
    state: Annotated[
        list[OccurrenceState] | None,
        Option("--state", help="Only occurrences in this state; may be given several times."),
    ] = None,
    limit: Limit = 20,
    before: Annotated[
        int | None, Option("--before", metavar="N", min=0, help="Go on where a page ended: its number.")
    ] = None,
    store: Store = None,
    as_json: AsJson = False,  # noqa: FBT002 - a switch
) -> None:
    """List the outcomes of a job's occurrences, the newest first, and draw their durations."""

    async def look(snapshot: StoreSnapshot) -> None:
        page = await history_page(
            snapshot, snapshot.job(job), limit=limit, before=before, states=frozenset(state or ())
        )
        if as_json:
            print_json(page)
            return
        print_history(snapshot, page, is_whole=not state and before is None)

    with errors_told():
        looked_at(store, look)
