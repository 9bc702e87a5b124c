"""All pages of the dashboard, as data: a route, and an address that leads to it.

A page that is new gets a line here, and is then looked at by every test, and kept as a picture for the docs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from itinerary.model.ids import job_id
from itinerary.web.pages.routes import PAGES
from tests.e2e.web.lively import HOSTILE


class Sight(NamedTuple):
    """A page."""

    name: str
    route: str
    address: str
    """`{run}` stands for the number of an occurrence that has failed."""


ALL = (
    Sight("now", "/", "/"),
    Sight("timeline", "/timeline", "/timeline"),
    Sight("jobs", "/jobs", "/jobs"),
    Sight("job", "/jobs/{}", "/jobs/failing"),
    Sight("hostile-job", "/jobs/{}", f"/jobs/{job_id(HOSTILE)}"),
    Sight("history", "/jobs/{}/history", "/jobs/failing/history"),
    Sight("occurrence", "/runs/{}", "/runs/{run}"),
    Sight("records", "/records", "/records"),
    Sight("desk", "/records/{}", "/records/orders"),
    Sight("audit", "/audit", "/audit?from=&to="),
    Sight("action", "/actions/{}", "/actions/backfill?job=failing"),
    Sight("hostile-action", "/actions/{}", f"/actions/pause?job={job_id(HOSTILE)}"),
    Sight("sign-in", "/login", "/login"),
)
_OTHERS = {"/actions/remove", "/backfills/{}", "/static/{}/{}", "/runs/{}/output/{}/{}", "/runs/{}/run/{}"}
"""Routes that are no pages of their own, or that only an action leads to."""


def routes() -> set[str]:
    """What the dashboard answers to GET, whatever its parameters are called."""
    return {re.sub(r"\{[^}]*\}", "{}", route.path) for route in PAGES if route.method == "GET"}


def there() -> list[Sight]:
    """Those that this dashboard has."""
    known = routes()
    return [sight for sight in ALL if sight.route in known]


def forgotten() -> set[str]:
    """Routes that nobody looks at."""
    return routes() - {sight.route for sight in ALL} - _OTHERS
