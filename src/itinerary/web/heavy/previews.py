"""Previews of backfills, for the routes of the API and the forms of the dashboard."""

from __future__ import annotations

from itinerary.errors import ConfigError
from itinerary.operations.backfill import Backfill, BackfillWish
from itinerary.web.heavy.ask import read_answer
from itinerary.web.heavy.bounds import BACKFILL_MAX, DAY
from itinerary.web.heavy.works import BackfillWork
from itinerary.web.requests import Request

__all__ = ["check_range", "preview_of"]


def check_range(lasting: int) -> None:
    """Reject a range that is too long. Raises ConfigError."""
    if lasting > BACKFILL_MAX:
        raise ConfigError(
            f"the range is longer than {BACKFILL_MAX // DAY:,} days, the most that a request may ask for; give a "
            "shorter one, or use `itinerary backfill`"
        )


async def preview_of(request: Request, job: str, wish: BackfillWish) -> Backfill:
    """Return the runs that a backfill would create. Raises as `ask_worker` does, and ConfigError for a long range."""
    view = await request.app.server.view()
    if wish.end <= view.now():  # otherwise the worker rejects the future range with a clearer message
        check_range(wish.end - wish.start)
    work = BackfillWork(job=job, start=wish.start, end=wish.end, which=wish.which, key=wish.key, version=wish.version)
    return await read_answer(request, work, Backfill)
