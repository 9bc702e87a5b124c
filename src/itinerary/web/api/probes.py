"""The routes `/health/live`, `/health/ready`, `/health/progress` and `/metrics` on the dashboard's server (U8)."""

from __future__ import annotations

from typing import Final

from itinerary.model.scopes import Scope
from itinerary.observe.metrics import CONTENT_TYPE
from itinerary.web.api.responses import ProbeResponse
from itinerary.web.api.state import ApiState
from itinerary.web.http_responses import Response
from itinerary.web.requests import Request
from itinerary.web.routes import page

__all__ = ["PROBING"]


@page("/health/live", needs=Scope.READ)
async def is_live(request: Request) -> Response[ProbeResponse]:
    """Whether the engine's loop answers."""
    return await _told(request.app.api, "live")


@page("/health/ready", needs=Scope.READ)
async def is_ready(request: Request) -> Response[ProbeResponse]:
    """Whether the node takes work."""
    return await _told(request.app.api, "ready")


@page("/health/progress", needs=Scope.READ)
async def makes_progress(request: Request) -> Response[ProbeResponse]:
    """Whether nothing has been due and undecided for too long."""
    return await _told(request.app.api, "progress")


@page("/metrics", needs=Scope.READ)
async def all_metrics(request: Request) -> Response[bytes]:
    """All metrics, as Prometheus reads them."""
    return Response(await request.app.api.probes.metrics(), media_type=CONTENT_TYPE)


PROBING: Final = (is_live, is_ready, makes_progress, all_metrics)


async def _told(api: ApiState, probe: str) -> Response[ProbeResponse]:
    verdict = await api.probes.verdict(probe)
    told = ProbeResponse("ok" if verdict.ok else "failing", verdict.why)
    return Response(told, status_code=200 if verdict.ok else 503)
