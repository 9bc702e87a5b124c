"""Declaration of API routes: scope, parameters, responses, rejections.

Every route has a scope, a summary and its rejections. All rejections are problem details (RFC 9457) and are part of the
OpenAPI document. Unknown input is an error and never ignored (Q7): query parameters are checked here, keys of bodies by
their types. A body must be JSON with the matching content type, which no form of a foreign page can send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from litestar import Request, Response, get, post
from litestar.connection import ASGIConnection
from litestar.exceptions import ValidationException
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, JSONBody, ParameterKwarg, PathParameter, QueryParameter, SkipValidation

from itinerary.model.scopes import Scope
from itinerary.model.text import NAME_MAX
from itinerary.operations.idempotency import RequestKey
from itinerary.web.litestar_guard import caller_of
from itinerary.web.problems import PROBLEM_TYPE, ProblemDocument, RequestRefused

__all__ = [
    "EVENTS_TYPE",
    "AnyRequest",
    "BackfillKey",
    "DeskName",
    "JobName",
    "Key",
    "Limit",
    "RunName",
    "Sent",
    "by_whom",
    "changing",
    "key_of",
    "known_things_only",
    "read_body",
    "reading",
    "said_wrong",
    "streaming",
    "unreadable",
]

B = TypeVar("B")
AnyRequest: TypeAlias = Request[Any, Any, Any]
Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=1_000, description="At most so many.")]
Key: TypeAlias = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=NAME_MAX,
        description="The same key with the same request, sent twice, is one change and the same answer.",
    ),
]
Sent: TypeAlias = JSONBody[SkipValidation[B]]
"""The body of a request, decoded from JSON but not validated: `read_body` does that."""
JobName: TypeAlias = Annotated[str, PathParameter(description="A job: its name, or its id.")]
RunName: TypeAlias = Annotated[
    str, PathParameter(description="An occurrence: its number, its id, or a run id, `etl:1767225600`.")
]
DeskName: TypeAlias = Annotated[str, PathParameter(description="A desk, by its name.")]
BackfillKey: TypeAlias = Annotated[str, PathParameter(description="The key of a backfill.")]
EVENTS_TYPE: Final = "text/event-stream"
_JSON: Final = "application/json"
_GIVEN: Final = frozenset({"request", "data", "api"})
"""Handler parameters that are not request parameters."""
_PATH: Final = re.compile(r"{(\w+):")
_ALWAYS: Final = (400, 401, 403, 405, 421, 429, 431, 500, 503)
_WITH_BODY: Final = (409, 413, 415, 422)
_SAYS: Final = {
    400: "What was asked for is wrong, and why.",
    401: "A token is needed, or this one is no longer good.",
    403: "The token's scope is not enough, or the request came from another site.",
    404: "There is no such thing, or not any more.",
    405: "Nothing is done there in this way.",
    409: "It has been changed meanwhile, or has ended.",
    413: "Too large.",
    415: "A body must be JSON.",
    421: "The request was meant for another host.",
    422: "The key was used for another request.",
    429: "Too many requests; Retry-After says when.",
    431: "Too many headers, or too large ones.",
    500: "A mistake of ours; the node's log has it.",
    503: "The store cannot be reached, or too much is going on; ask again.",
}

Handler: TypeAlias = Callable[..., Any]


def reading(
    path: str, *, summary: str, tag: str, needs: Scope = Scope.READ, returns: Mapping[int, str] | None = None
) -> Callable[[Handler], HTTPRouteHandler]:
    """Declare a route that changes nothing. `returns` describes its responses by status, where there are several."""
    return get(
        path,
        summary=summary,
        opt={"needs": needs},
        tags=[tag],
        operation_id=_called,
        responses=_refusals(path, ()),
        response_description=(returns or {}).get(200, "What was asked for."),
    )


def streaming(path: str, *, summary: str, tag: str, needs: Scope = Scope.READ) -> Callable[[Handler], HTTPRouteHandler]:
    """Declare a route that responds with a stream of server-sent events."""
    return get(
        path,
        summary=summary,
        opt={"needs": needs},
        tags=[tag],
        operation_id=_called,
        responses=_refusals(path, ()),
        media_type=EVENTS_TYPE,
        response_description="Server-sent events.",
    )


def changing(
    path: str, *, summary: str, tag: str, needs: Scope = Scope.OPERATE, status: int = 200
) -> Callable[[Handler], HTTPRouteHandler]:
    """Declare a route that changes something, or needs a body."""
    return post(
        path,
        summary=summary,
        opt={"needs": needs},
        tags=[tag],
        operation_id=_called,
        status_code=status,
        responses=_refusals(path, _WITH_BODY),
        response_description="What came of it.",
    )


def _called(handler: HTTPRouteHandler, _: Any, __: Any) -> str:
    return handler.handler_name


def _refusals(path: str, more: tuple[int, ...]) -> dict[int, ResponseSpec]:
    found = {*_ALWAYS, *more, *((404,) if "{" in path else ())}
    return {
        status: ResponseSpec(
            ProblemDocument, description=_SAYS[status], media_type=PROBLEM_TYPE, generate_examples=False
        )
        for status in sorted(found)
    }


# -- requests ----------------------------------------------------------------------------------------------------------


async def known_things_only(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Reject unknown query parameters and bodies that are not JSON. A guard that runs after admission."""
    known = _parameters(handler)
    for name in connection.query_params:
        if name not in known:
            told = ", ".join(sorted(known)) or "none"
            raise RequestRefused(
                400, "Unknown parameter", f"{name[:60]!r} is no parameter of this address; there are: {told}"
            )
    if connection.scope.get("method") != "POST":
        return
    media = connection.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = connection.headers.get("content-length", "0") != "0" or "transfer-encoding" in connection.headers
    if has_body and media != _JSON:
        raise RequestRefused(415, "Not JSON", f"a body is JSON here; send it with Content-Type: {_JSON}")


@cache
def _parameters(handler: BaseRouteHandler) -> frozenset[str]:
    path = {name for one in handler.paths for name in _PATH.findall(one)}
    found = set()
    for name, field in handler.parsed_fn_signature.parameters.items():
        kwarg = field.kwarg_definition
        if name in _GIVEN or name in path:
            continue
        if isinstance(kwarg, ParameterKwarg):
            if isinstance(kwarg, HeaderParameter):
                continue
            found.add(kwarg.name or name)
        else:
            found.add(name)
    return frozenset(found)


def said_wrong(request: AnyRequest, error: ValidationException) -> Response[bytes]:
    """Return the response for invalid input: the key and its fault."""
    extra = error.extra if isinstance(error.extra, list) else []
    told = [
        f"{one['key']}: {one['message']}" if one.get("key") not in (None, "data") else str(one.get("message"))
        for one in extra
        if isinstance(one, dict)
    ]
    detail = "; ".join(told) or error.detail
    problem = RequestRefused(400, HTTPStatus.BAD_REQUEST.phrase, detail).problem(request.scope["path"])
    return Response(msgspec.json.encode(problem), status_code=400, media_type=PROBLEM_TYPE)


def unreadable(request: AnyRequest, _: Exception) -> Response[bytes]:
    """Return the response for a body that is not UTF-8, or is nested too deep."""
    problem = RequestRefused(400, "Bad request", "the body is no JSON: it is not UTF-8, or nested too deep")
    return Response(
        msgspec.json.encode(problem.problem(request.scope["path"])), status_code=400, media_type=PROBLEM_TYPE
    )


def read_body(kind: type[B], sent: object, *, is_required: bool = False) -> B:
    """Validate a body strictly: no number for a text, no text for a number.

    Args:
        kind: The type of the body.
        sent: The decoded JSON; None: no body, which counts as an empty object.
        is_required: Reject a request without a body.

    Raises:
        Refused: The body is invalid or missing.
    """
    if sent is None and is_required:
        raise RequestRefused(400, "Bad request", "this needs a body: a JSON object")
    try:
        return msgspec.convert({} if sent is None else sent, kind, strict=True)
    except msgspec.ValidationError as error:
        raise RequestRefused(400, "Bad request", str(error)) from error


def by_whom(request: AnyRequest) -> str:
    """Return the caller's name for the change log (Q2)."""
    return caller_of(request).name


def key_of(request: AnyRequest, key: str | None, body: msgspec.Struct | None) -> RequestKey | None:
    """Return the idempotency key with a digest of the method, the path and the body; None without a key."""
    if key is None:
        return None
    said = b"{}" if body is None else msgspec.json.encode(body, order="deterministic")
    text = f"{request.scope['method']} {request.scope['path']}\n".encode("utf-8", "surrogatepass") + said
    return RequestKey(key, sha256(text).hexdigest()[:32])
