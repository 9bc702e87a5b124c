"""The OpenAPI document, made from the routes and from the types of their functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from itinerary.node.thread import installed_version
from itinerary.web.api.parameters import ParameterField
from itinerary.web.api.routing import NO_BODY, Operation
from itinerary.web.http_responses import EVENTS_TYPE, JSON_TYPE
from itinerary.web.problems import PROBLEM_TYPE, ProblemDocument
from itinerary.web.routes import Route

__all__ = ["document_of"]

_ABOUT: Final = """Everything that the command line does on a store, but for migrating it, its tokens and its doctor.

Every refusal is a problem document (RFC 9457). Pages are followed by their `next`. Changes take an `Idempotency-Key`:
the same key with the same request, sent twice, is one change. What is not known is an error: parameters, keys, values.
"""
_TAGS: Final = {
    "jobs": "Jobs, their history, and why they ran or did not",
    "changes": "What people change about a job",
    "occurrences": "Single runs",
    "backfills": "Ranges of the past",
    "job files": "Plan and apply",
    "forecast": "What will happen",
    "records": "Desks and their logs",
    "store": "Nodes, audit, forgetting",
    "live": "What changes, as it does",
}
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

Json = dict[str, Any]


def document_of(routes: Iterable[Route]) -> Json:
    """Return the OpenAPI document of the routes that it lists."""
    listed = [route for route in routes if isinstance(route.operation, Operation) and route.operation.is_listed]
    schemas = _Schemas(route.operation for route in listed)
    paths: dict[str, Json] = {}
    for route in listed:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Itinerary", "version": installed_version(), "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "tags": [{"name": name, "description": says} for name, says in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


class _Schemas:
    """The JSON schemas of all types that the routes name."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        kinds: list[Any] = [ProblemDocument]
        for operation in operations:
            kinds += [operation.body_type, operation.response_type, *(field.kind for field in operation.parameters)]
        kinds = [kind for kind in kinds if kind is not NO_BODY and kind is not None]
        found, self.components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
        self._found = dict(zip(map(repr, kinds), found, strict=True))

    def of(self, kind: Any) -> Json:
        """Return the schema of a type."""
        return dict(self._found[repr(kind)])


def _operation(route: Route, schemas: _Schemas) -> Json:
    operation: Operation = route.operation
    has_body = operation.body_type is not NO_BODY
    found: Json = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "operationId": operation.name,
        "parameters": [_parameter(field, schemas) for field in operation.parameters],
        "responses": _responses(route, operation, schemas),
    }
    if has_body:
        content = {JSON_TYPE: {"schema": schemas.of(operation.body_type)}}
        found["requestBody"] = {"content": content, "required": operation.is_body_required}
    return found


def _parameter(field: ParameterField, schemas: _Schemas) -> Json:
    schema = schemas.of(field.kind)
    if not field.is_required and field.default is not None:
        schema["default"] = msgspec.to_builtins(field.default)
    return {
        "name": field.name,
        "in": field.place,
        "description": field.description,
        "required": field.is_required,
        "schema": schema,
    }


def _responses(route: Route, operation: Operation, schemas: _Schemas) -> Json:
    kind = operation.response_type
    done = {EVENTS_TYPE: {"schema": {}}} if kind is None else {JSON_TYPE: {"schema": schemas.of(kind)}}
    refused = {*_ALWAYS, *(_WITH_BODY if route.method == "POST" else ()), *((404,) if route.parameters else ())}
    problem = {PROBLEM_TYPE: {"schema": schemas.of(ProblemDocument)}}
    return {
        str(operation.status): {"description": operation.returns, "content": done},
        **{str(status): {"description": _SAYS[status], "content": problem} for status in sorted(refused)},
    }
