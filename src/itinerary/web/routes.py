"""Routes: an address, a method, the scope that it needs, and the function that responds.

    /jobs/{called}/history          a parameter is one part of the path
    /runs/{called}/output/{place:int}

A fixed part goes before a parameter: `/actions/remove` is not `/actions/{what}`. Several slashes count as one, and a
slash at the end does not count.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from itinerary.web.access import Need
from itinerary.web.http_responses import Response
from itinerary.web.problems import RequestRefused
from itinerary.web.requests import Request

__all__ = ["AnyResponse", "Handler", "Route", "RouteTable", "page"]

AnyResponse: TypeAlias = Response[Any]
Handler: TypeAlias = Callable[..., Awaitable[AnyResponse]]
PathValues: TypeAlias = dict[str, str | int]
_PARAMETER: Final = re.compile(r"{(\w+)(:int)?}")


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route. `respond` takes the request, and the parameters of the path by their names."""

    method: str
    path: str
    """The path, with the names of its parameters: `/jobs/{job}`."""
    needs: Need
    respond: Handler
    numbers: frozenset[str] = frozenset()
    """The parameters that are whole numbers."""
    operation: Any = None
    """The description of a route of the API, for its document."""

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in the path."""
        return [name for name, _ in _PARAMETER.findall(self.path)]


def page(path: str, *, needs: Need, method: str = "GET") -> Callable[[Handler], Route]:
    """Declare a route that is not part of the API: a page, a form, a file."""
    numbers = frozenset(name for name, kind in _PARAMETER.findall(path) if kind)

    def declare(respond: Handler) -> Route:
        return Route(method=method, path=path.replace(":int", ""), needs=needs, respond=respond, numbers=numbers)

    return declare


class _Node:
    """The routes below one part of a path."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, Route] = {}


class RouteTable:
    """All routes of an application, by their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)

    def find(self, request: Request) -> tuple[Route, PathValues]:
        """Return the route of a request, and the parameters of its path. Normalizes the path of the request.

        Raises:
            RequestRefused: No route has this path, or the path has no route for this method.
        """
        parts = [part for part in request.path.split("/") if part]
        node, values = self._descend(parts)
        route = node.routes.get(request.method)
        if route is None:
            allowed = ", ".join(sorted(node.routes))
            raise RequestRefused(405, "Method not allowed", "Method Not Allowed", (("allow", allowed),))
        found = _converted(route, values)
        request.scope["path"] = "/" + "/".join(parts)
        return route, found

    def _add(self, route: Route) -> None:
        node = self._root
        for part in filter(None, route.path.split("/")):
            if _PARAMETER.fullmatch(part):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.fixed.setdefault(part, _Node())
        assert route.method not in node.routes, f"two routes for {route.method} {route.path}"
        node.routes[route.method] = route

    def _descend(self, parts: list[str]) -> tuple[_Node, list[str]]:
        node, values = self._root, []
        for part in parts:
            following = node.fixed.get(part)
            if following is None and (following := node.parameter) is not None:
                values.append(part)
            if following is None:
                raise _not_found()
            node = following
        if not node.routes:
            raise _not_found()
        return node, values


def _converted(route: Route, values: list[str]) -> PathValues:
    named = zip(route.parameters, values, strict=True)
    try:
        return {name: int(value) if name in route.numbers else value for name, value in named}
    except ValueError:
        raise _not_found() from None


def _not_found() -> RequestRefused:
    return RequestRefused(404, "Not found", "Not Found")
