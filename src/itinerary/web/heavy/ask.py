"""Heavy work for a request: it uses the CPU seconds of the caller, and ends when the client leaves."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from itinerary.web.guard import caller_of
from itinerary.web.heavy.works import AnyWork, FindWork
from itinerary.web.http_responses import Response, wait_until_client_left
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["ask_worker", "json_of", "named_by_number", "read_answer"]

T = TypeVar("T")


async def ask_worker(request: Request, work: AnyWork) -> bytes:
    """Run a work for the caller of a request. Returns the answer as JSON.

    Raises:
        Refused: The work may not run now, is too much, or its client has left.
        ItineraryError: The work is invalid, or the store cannot be read.
    """
    working = asyncio.ensure_future(request.app.server.heavy.run(work, caller_of(request).name))
    leaving = asyncio.ensure_future(wait_until_client_left(request.receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise RequestRefused(503, "Client left", "the client has closed its connection, so the work was ended")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait((working, leaving))


async def read_answer(request: Request, work: AnyWork, kind: type[T]) -> T:
    """Run a work, and decode the answer. Raises as `ask_worker` does."""
    return msgspec.json.decode(await ask_worker(request, work), type=kind)


async def json_of(request: Request, work: AnyWork) -> Response[Any]:
    """Run a work, and send the answer as the worker wrote it. Raises as `ask_worker` does."""
    return Response(await ask_worker(request, work))


async def named_by_number(request: Request, run: str) -> str:
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
