"""The routes of the pages."""

from __future__ import annotations

from typing import Final

from itinerary.web.pages.actions import ACTION_PAGES
from itinerary.web.pages.audit import AUDIT_PAGES
from itinerary.web.pages.history import HISTORY
from itinerary.web.pages.job import JOB
from itinerary.web.pages.jobs import JOBS
from itinerary.web.pages.login import SIGNING
from itinerary.web.pages.now import NOW
from itinerary.web.pages.occurrence import OCCURRENCE
from itinerary.web.pages.records import RECORD_PAGES
from itinerary.web.pages.timeline import TIMELINE
from itinerary.web.routes import Route
from itinerary.web.static import static_file

__all__ = ["PAGES"]

PAGES: Final[tuple[Route, ...]] = (
    *NOW,
    *JOBS,
    *JOB,
    *HISTORY,
    *OCCURRENCE,
    *TIMELINE,
    *ACTION_PAGES,
    *RECORD_PAGES,
    *AUDIT_PAGES,
    *SIGNING,
    static_file,
)
