"""All routes of the API, put together."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final

import msgspec
from litestar import Response, Router, get
from litestar.di import Provide
from litestar.exceptions import ValidationException
from litestar.types import ControllerRouterHandler

from itinerary.model.access import Scope
from itinerary.web.api.backfilling import BACKFILLS
from itinerary.web.api.caring import CARE
from itinerary.web.api.changing import CHANGES
from itinerary.web.api.document import document_of
from itinerary.web.api.filing import FILES
from itinerary.web.api.foreseeing import FORECASTS
from itinerary.web.api.framing import known_things_only, said_wrong, unreadable
from itinerary.web.api.jobs import JOBS
from itinerary.web.api.probing import PROBING
from itinerary.web.api.records import RECORDS
from itinerary.web.api.running import RUNS
from itinerary.web.api.service import Service
from itinerary.web.api.watching import WATCHING

__all__ = ["PREFIX", "api_document", "api_routes"]

PREFIX: Final = "/api/v1"
_ROUTES: Final = (*JOBS, *CHANGES, *RUNS, *BACKFILLS, *FILES, *FORECASTS, *RECORDS, *CARE, *WATCHING)


@get("/openapi.json", opt={"needs": Scope.READ}, include_in_schema=False)
async def openapi() -> Response[bytes]:
    """The document of the API."""
    return Response(await asyncio.to_thread(_document_sent), media_type="application/json")


def api_routes(service: Service | None) -> list[ControllerRouterHandler]:
    """The API, and the probes beside it; None: only to be looked at."""
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
    """The OpenAPI document."""
    return document_of(api_routes(None))
