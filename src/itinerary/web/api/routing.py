"""Declaration of API routes: scope, parameters, responses, rejections.

Every route has a scope, a summary and its rejections. All rejections are problem details (RFC 9457) and are part of the
OpenAPI document. Unknown input is an error and never ignored (Q7): query parameters are checked here, keys of bodies by
their types. A body must be JSON with the matching content type, which no form of a foreign page can send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from hashlib import sha256
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from itinerary.model.scopes import Scope
from itinerary.operations.idempotency import RequestKey
from itinerary.web.api.parameters import ParameterField, parameters_of, read_parameters
from itinerary.web.guard import caller_of
from itinerary.web.http_responses import JSON_TYPE, Response, Stream
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request
from itinerary.web.routes import AnyResponse, Route

__all__ = [
    "NO_BODY",
    "Operation",
    "Sent",
    "by_whom",
    "changing",
    "key_of",
    "read_body",
    "reading",
    "streaming",
    "unlisted",
]

B = TypeVar("B")
_BODY: Final = object()
Sent: TypeAlias = Annotated[B, _BODY]
"""The body of a request, decoded from JSON but not validated: `read_body` does that."""
NO_BODY: Final = object()
"""Stands for the type of the body, if a route takes none."""
Handler: TypeAlias = Callable[..., Awaitable[Any]]


class Operation:
    """A route of the API: the function behind it, and what the document says about it."""

    def __init__(
        self,
        handler: Handler,
        *,
        status: int = 200,
        summary: str = "",
        tag: str = "",
        returns: str = "",
        is_listed: bool = True,
    ) -> None:
        self._handler, self.status = handler, status
        self.name, self.summary, self.tag, self.returns = handler.__name__, summary, tag, returns
        self.description = cleandoc(handler.__doc__ or "")
        self.is_listed = is_listed
        self._given = frozenset(signature(handler).parameters) & {"request", "api", "data"}

    @cached_property
    def parameters(self) -> tuple[ParameterField, ...]:
        """The parameters of the route."""
        return parameters_of(self._handler)

    @cached_property
    def body_type(self) -> Any:
        """The type of the body; `NO_BODY` if the route takes none."""
        hint = get_type_hints(self._handler, include_extras=True).get("data")
        return NO_BODY if hint is None else get_args(hint)[0]

    @property
    def is_body_required(self) -> bool:
        """True if a request must have a body."""
        return signature(self._handler).parameters["data"].default is Parameter.empty

    @cached_property
    def response_type(self) -> Any:
        """The type of the response's body; None for a stream."""
        hint = get_type_hints(self._handler, include_extras=True)["return"]
        if hint is Stream:
            return None
        return get_args(hint)[0] if get_origin(hint) is Response else hint

    async def respond(self, request: Request, **path: Any) -> AnyResponse:
        """Respond to a request. Raises RequestRefused for input that the route does not know."""
        try:
            result = await self._handler(**await self._arguments(request, path))
        except (UnicodeDecodeError, RecursionError) as error:
            raise RequestRefused(
                400, "Bad request", "the body is no JSON: it is not UTF-8, or nested too deep"
            ) from error
        return result if isinstance(result, Response) else Response(result, status_code=self.status)

    async def _arguments(self, request: Request, path: dict[str, Any]) -> dict[str, Any]:
        self._check_known(request)
        found = read_parameters(self.parameters, request, path)
        if "request" in self._given:
            found["request"] = request
        if "api" in self._given:
            found["api"] = request.app.api
        if "data" in self._given:
            found["data"] = _decoded(await request.body())
        return found

    def _check_known(self, request: Request) -> None:
        """Reject unknown query parameters and bodies that are not JSON."""
        known = {field.name for field in self.parameters if field.place == "query"}
        for name in request.query_params:
            if name not in known:
                told = ", ".join(sorted(known)) or "none"
                raise RequestRefused(
                    400, "Unknown parameter", f"{name[:60]!r} is no parameter of this address; there are: {told}"
                )
        has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
        if request.method == "POST" and has_body and request.media_type != JSON_TYPE:
            raise RequestRefused(415, "Not JSON", f"a body is JSON here; send it with Content-Type: {JSON_TYPE}")


def reading(path: str, *, summary: str, tag: str, needs: Scope = Scope.READ) -> Callable[[Handler], Route]:
    """Declare a route that changes nothing."""
    return _declare("GET", path, needs, summary=summary, tag=tag, returns="What was asked for.")


def streaming(path: str, *, summary: str, tag: str, needs: Scope = Scope.READ) -> Callable[[Handler], Route]:
    """Declare a route that responds with a stream of server-sent events."""
    return _declare("GET", path, needs, summary=summary, tag=tag, returns="Server-sent events.")


def changing(
    path: str, *, summary: str, tag: str, needs: Scope = Scope.OPERATE, status: int = 200
) -> Callable[[Handler], Route]:
    """Declare a route that changes something, or needs a body."""
    return _declare("POST", path, needs, status=status, summary=summary, tag=tag, returns="What came of it.")


def unlisted(path: str, *, needs: Scope) -> Callable[[Handler], Route]:
    """Declare a route that the document does not list."""
    return _declare("GET", path, needs, is_listed=False)


def _declare(method: str, path: str, needs: Scope, **about: Any) -> Callable[[Handler], Route]:
    def declare(handler: Handler) -> Route:
        operation = Operation(handler, **about)
        return Route(method=method, path=path, needs=needs, respond=operation.respond, operation=operation)

    return declare


# -- requests ----------------------------------------------------------------------------------------------------------


def _decoded(body: bytes) -> Any:
    """Return a body as JSON; None if it is empty. Raises RequestRefused."""
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError as error:
        raise RequestRefused(400, "Bad request", str(error)) from error


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


def by_whom(request: Request) -> str:
    """Return the caller's name for the change log (Q2)."""
    return caller_of(request).name


def key_of(request: Request, key: str | None, body: msgspec.Struct | None) -> RequestKey | None:
    """Return the idempotency key with a digest of the method, the path and the body; None without a key."""
    if key is None:
        return None
    said = b"{}" if body is None else msgspec.json.encode(body, order="deterministic")
    text = f"{request.scope['method']} {request.scope['path']}\n".encode("utf-8", "surrogatepass") + said
    return RequestKey(key, sha256(text).hexdigest()[:32])
