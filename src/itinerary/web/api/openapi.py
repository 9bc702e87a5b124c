"""The OpenAPI document, which litestar generates from the routes and their types.

This module corrects the places where litestar is inexact: bodies accept no additional keys, a nullable value is `anyOf`
and not `oneOf`, and integers have integer bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme, Tag
from litestar.types import ControllerRouterHandler

from itinerary.node.thread import installed_version
from itinerary.web.api import request_bodies as bodies

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


def document_of(routes: Sequence[ControllerRouterHandler]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    config = OpenAPIConfig(
        title="Itinerary",
        version=installed_version(),
        description=_ABOUT,
        use_handler_docstrings=True,
        tags=[Tag(name, description=says) for name, says in _TAGS.items()],
        components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
        security=[{"token": []}, {}],
    )
    found: dict[str, Any] = Litestar(
        list(routes), openapi_config=config, logging_config=None
    ).openapi_schema.to_schema()
    for name in _strict():
        if (schema := found["components"]["schemas"].get(name)) is not None:
            schema["additionalProperties"] = False
    for path in found["paths"].values():
        for operation in path.values():
            _with_optional_body(operation)
    _said_exactly(found)
    return found


def _strict() -> list[str]:
    """Return the type names of bodies, which accept no additional keys."""
    kinds = [kind for kind in vars(bodies).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return [kind.__name__ for kind in kinds if kind.__struct_config__.forbid_unknown_fields]


def _with_optional_body(operation: dict[str, Any]) -> None:
    body = operation.get("requestBody")
    if body is None:
        return
    for content in body["content"].values():
        kinds = content["schema"].get("oneOf", [])
        if {"type": "null"} in kinds:
            body["required"] = False


def _said_exactly(part: Any) -> None:
    """Replace `oneOf` by `anyOf`, and float bounds of integers by integers."""
    if isinstance(part, list):
        for one in part:
            _said_exactly(one)
        return
    if not isinstance(part, dict):
        return
    if "oneOf" in part:
        kinds = part.pop("oneOf")
        part |= {} if {} in kinds else {"anyOf": kinds}
    for key in ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"):
        if isinstance(part.get(key), float) and part.get("type") == "integer":
            part[key] = int(part[key])
    for one in part.values():
        _said_exactly(one)
