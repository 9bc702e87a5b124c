"""The routes of the API."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from itinerary.model.scopes import Scope
from itinerary.web.api.backfill_routes import BACKFILLS
from itinerary.web.api.events import WATCHING
from itinerary.web.api.job_changes import CHANGES
from itinerary.web.api.job_files import FILES
from itinerary.web.api.jobs import JOBS
from itinerary.web.api.maintenance import CARE
from itinerary.web.api.openapi import document_of
from itinerary.web.api.probes import PROBING
from itinerary.web.api.records import RECORDS
from itinerary.web.api.routing import unlisted
from itinerary.web.api.runs import RUNS
from itinerary.web.api.simulate import FORECASTS
from itinerary.web.http_responses import Response

__all__ = ["API_ROUTES", "PREFIX", "api_document"]

PREFIX: Final = "/api/v1"


@unlisted("/openapi.json", needs=Scope.READ)
async def openapi() -> Response[bytes]:
    """The document of the API."""
    return Response(await asyncio.to_thread(_document_sent))


_ROUTES: Final = (*JOBS, *CHANGES, *RUNS, *BACKFILLS, *FILES, *FORECASTS, *RECORDS, *CARE, *WATCHING, openapi)
API_ROUTES: Final = (*(replace(route, path=PREFIX + route.path) for route in _ROUTES), *PROBING)
"""The routes of the API and the probes."""


@cache
def _document_sent() -> bytes:
    return msgspec.json.encode(api_document())


@cache
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return document_of(API_ROUTES)
