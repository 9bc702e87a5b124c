"""The routes `/health/live`, `/health/ready`, `/health/progress` and `/metrics` on the dashboard's server (U8)."""

from __future__ import annotations

from typing import Final

from litestar import Response, get

from itinerary.model.scopes import Scope
from itinerary.observe.metrics import CONTENT_TYPE
from itinerary.web.api.responses import ProbeResponse
from itinerary.web.api.state import Api

__all__ = ["PROBING"]


@get("/health/live", opt={"needs": Scope.READ}, include_in_schema=False)
async def is_live(api: Api) -> Response[ProbeResponse]:
    """Whether the engine's loop answers."""
    return await _told(api, "live")


@get("/health/ready", opt={"needs": Scope.READ}, include_in_schema=False)
async def is_ready(api: Api) -> Response[ProbeResponse]:
    """Whether the node takes work."""
    return await _told(api, "ready")


@get("/health/progress", opt={"needs": Scope.READ}, include_in_schema=False)
async def makes_progress(api: Api) -> Response[ProbeResponse]:
    """Whether nothing has been due and undecided for too long."""
    return await _told(api, "progress")


@get("/metrics", opt={"needs": Scope.READ}, include_in_schema=False)
async def all_metrics(api: Api) -> Response[bytes]:
    """All metrics, as Prometheus reads them."""
    return Response(await api.probes.metrics(), media_type=CONTENT_TYPE)


PROBING: Final = (is_live, is_ready, makes_progress, all_metrics)


async def _told(api: Api, probe: str) -> Response[ProbeResponse]:
    verdict = await api.probes.verdict(probe)
    told = ProbeResponse("ok" if verdict.ok else "failing", verdict.why)
    return Response(told, status_code=200 if verdict.ok else 503)
