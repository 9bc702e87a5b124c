"""Parameters of API routes: where each one stands in a request, its type, and how it is read.

A route declares a parameter by an annotation of its function:

    limit: Annotated[int, Meta(ge=1, le=1_000), QueryParameter("At most so many.")] = 50

msgspec converts the text of the request to the type, and checks the limits.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from itinerary.model.text import NAME_MAX
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = [
    "BackfillKey",
    "Cursor",
    "DeskName",
    "HeaderParameter",
    "JobName",
    "Key",
    "LastEventId",
    "Limit",
    "NameText",
    "ParameterField",
    "PathParameter",
    "QueryParameter",
    "RunName",
    "parameters_of",
    "read_parameters",
]

Place: TypeAlias = Literal["query", "header", "path"]


class _Parameter(msgspec.Struct, frozen=True):
    """The description of a parameter. `name` is its name in the request, if the function has another one."""

    description: str
    name: str | None = None


class QueryParameter(_Parameter, frozen=True):
    """A parameter in the query of the address."""


class HeaderParameter(_Parameter, frozen=True):
    """A parameter in a header."""


class PathParameter(_Parameter, frozen=True):
    """A parameter in the path of the address."""


_PLACES: Final[Mapping[type[_Parameter], Place]] = {
    QueryParameter: "query",
    HeaderParameter: "header",
    PathParameter: "path",
}

NameText: TypeAlias = Annotated[str, Meta(max_length=NAME_MAX)]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=1_000), QueryParameter("At most so many.")]
Cursor: TypeAlias = Annotated[
    Annotated[str, Meta(max_length=2_000)] | None, QueryParameter("The `next` of the page before.")
]
Key: TypeAlias = Annotated[
    NameText | None,
    HeaderParameter(
        "The same key with the same request, sent twice, is one change and the same answer.", "Idempotency-Key"
    ),
]
LastEventId: TypeAlias = Annotated[NameText | None, HeaderParameter("Where a stream broke off.", "Last-Event-ID")]
JobName: TypeAlias = Annotated[str, PathParameter("A job: its name, or its id.")]
RunName: TypeAlias = Annotated[str, PathParameter("An occurrence: its number, its id, or a run id, `etl:1767225600`.")]
DeskName: TypeAlias = Annotated[str, PathParameter("A desk, by its name.")]
BackfillKey: TypeAlias = Annotated[str, PathParameter("The key of a backfill.")]


class ParameterField(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of a route."""

    argument: str
    """The name of the function's argument."""
    name: str
    """The name in the request."""
    place: Place
    kind: Any
    """The type of the value, with its limits."""
    default: Any
    """The default value; `Parameter.empty` if the parameter is required."""
    description: str

    @property
    def is_required(self) -> bool:
        """True if a request must have the parameter."""
        return self.default is Parameter.empty

    @property
    def is_list(self) -> bool:
        """True if a request may have the parameter several times."""
        return any(get_origin(kind) is list for kind in _members(self.kind))

    def text(self, request: Request, path: Mapping[str, Any]) -> str | list[str] | None:
        """Return the value in a request as it was sent; None if it is missing."""
        match self.place:
            case "path":
                return str(path[self.name])
            case "header":
                return request.headers.get(self.name.lower())
            case "query":
                values = request.query_params.all(self.name)
                return values or None if self.is_list else next(reversed(values), None)


def parameters_of(handler: Callable[..., Any]) -> tuple[ParameterField, ...]:
    """Return the parameters of the function of a route, in the order of its arguments."""
    hints, found = get_type_hints(handler, include_extras=True), []
    for argument in signature(handler).parameters.values():
        declared = [one for one in get_args(hints[argument.name])[1:] if isinstance(one, _Parameter)]
        if declared:
            one = declared[0]
            found.append(
                ParameterField(
                    argument=argument.name,
                    name=one.name or argument.name,
                    place=_PLACES[type(one)],
                    kind=hints[argument.name],
                    default=argument.default,
                    description=one.description,
                )
            )
    return tuple(found)


def read_parameters(fields: tuple[ParameterField, ...], request: Request, path: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for the function of a route.

    Raises:
        RequestRefused: A parameter is missing, or some are invalid. The detail names all of them.
    """
    values, faults = {}, []
    for field in fields:
        sent = field.text(request, path)
        if sent is None:
            if field.is_required:
                raise _refused(f"Missing required {field.place} parameter {field.name!r} for path {_address(request)}")
            values[field.argument] = field.default
            continue
        try:
            values[field.argument] = msgspec.convert(sent, field.kind, strict=False)
        except msgspec.ValidationError as error:
            faults.append(f"{field.name}: {str(error).partition(' - ')[0]}")
    if faults:
        raise _refused("; ".join(faults))
    return values


def _members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (bare,)


def _address(request: Request) -> str:
    return f"{request.path}?{request.query}" if request.query else request.path


def _refused(detail: str) -> RequestRefused:
    return RequestRefused(400, "Bad Request", detail)
