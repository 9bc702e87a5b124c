"""The routes of the API."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final

import msgspec
from litestar import Response, Router, get
from litestar.di import Provide
from litestar.exceptions import ValidationException
from litestar.types import ControllerRouterHandler

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
from itinerary.web.api.routing import known_things_only, said_wrong, unreadable
from itinerary.web.api.runs import RUNS
from itinerary.web.api.simulate import FORECASTS
from itinerary.web.api.state import ApiState

__all__ = ["PREFIX", "api_document", "api_routes"]

PREFIX: Final = "/api/v1"
_ROUTES: Final = (*JOBS, *CHANGES, *RUNS, *BACKFILLS, *FILES, *FORECASTS, *RECORDS, *CARE, *WATCHING)


@get("/openapi.json", opt={"needs": Scope.READ}, include_in_schema=False)
async def openapi() -> Response[bytes]:
    """The document of the API."""
    return Response(await asyncio.to_thread(_document_sent), media_type="application/json")


def api_routes(service: ApiState | None) -> list[ControllerRouterHandler]:
    """Return the routes of the API and the probes. With `service` None they serve only to generate the document."""
    shared = {"api": Provide(lambda: service, sync_to_thread=False)}
    api = Router(
        PREFIX,
        route_handlers=[*_ROUTES, openapi],
        dependencies=shared,
        guards=[known_things_only],
        exception_handlers={
            ValidationException: said_wrong,
            UnicodeDecodeError: unreadable,
            RecursionError: unreadable,
        },
    )
    return [api, Router("/", route_handlers=list(PROBING), dependencies=shared)]


@cache
def _document_sent() -> bytes:
    return msgspec.json.encode(api_document())


@cache
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return document_of(api_routes(None))
