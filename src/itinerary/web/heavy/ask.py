"""Heavy work for a request: it uses the CPU seconds of the caller, and ends when the client leaves."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec
from litestar import Request, Response

from itinerary.web.heavy.pool import HeavyWork
from itinerary.web.heavy.works import AnyWork, FindWork
from itinerary.web.litestar_guard import caller_of
from itinerary.web.problems import RequestRefused

__all__ = ["ask_worker", "json_of", "named_by_number", "read_answer"]

_GONE: Final = "http.disconnect"
_JSON: Final = "application/json"

T = TypeVar("T")


async def ask_worker(request: Request[Any, Any, Any], work: AnyWork) -> bytes:
    """Run a work for the caller of a request. Returns the answer as JSON.

    Raises:
        Refused: The work may not run now, is too much, or its client has left.
        ItineraryError: The work is invalid, or the store cannot be read.
    """
    heavy: HeavyWork = request.app.state.server.heavy
    working = asyncio.ensure_future(heavy.run(work, caller_of(request).name))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise RequestRefused(503, "Client left", "the client has closed its connection, so the work was ended")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))


async def read_answer(request: Request[Any, Any, Any], work: AnyWork, kind: type[T]) -> T:
    """Run a work, and decode the answer. Raises as `ask_worker` does."""
    return msgspec.json.decode(await ask_worker(request, work), type=kind)


async def json_of(request: Request[Any, Any, Any], work: AnyWork) -> Response[Any]:
    """Run a work, and send the answer as the worker wrote it. Raises as `ask_worker` does."""
    return Response(await ask_worker(request, work), media_type=_JSON)


async def named_by_number(request: Request[Any, Any, Any], run: str) -> str:
    """Return the number of an occurrence that is named by its id; any other name is returned unchanged.

    The search covers the whole history.

    Raises:
        NotFoundError: No occurrence has this id.
    """
    try:
        identity = UUID(run)
    except ValueError:
        return run
    return str(await read_answer(request, FindWork(identity=identity), int))


async def _left(request: Request[Any, Any, Any]) -> None:
    """Wait until the client has closed its connection."""
    while (await request.receive())["type"] != _GONE:
        pass
