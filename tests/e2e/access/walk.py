"""A walk over all routes of a real node as every kind of caller, for the page docs/reference/access.md (Q1, Q6).

    routes      the application's own list, so that a new route cannot be left out
    callers     on a node without tokens; on a node with tokens; through each proxy that is installed

Each cell of the table is what the door said: the answer's status for 401, 403 and 421, and `yes` for a caller that was
let in, whatever the route made of an empty request. Cells that cannot be had here (another user without root, a proxy
that is not installed) are None.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from itinerary.model.scopes import Scope
from itinerary.web.access import PUBLIC
from itinerary.web.api.routes import API_ROUTES
from itinerary.web.pages.routes import PAGES
from tests.e2e.access.nodes import ask as ask_page
from tests.e2e.access.nodes import make_token, node, port_of, revoke_token, status_line
from tests.e2e.access.proxies import KINDS, NAMED, is_installed, proxy
from tests.e2e.cli.program import PATIENCE

__all__ = ["CALLERS", "Route", "routes", "walk", "written"]

OTHER_USER: Final = 65_534
NAME: Final = "jobs.example.com"
_REFUSED: Final = (401, 403, 421)
_TOO_MANY: Final = 429
_TRIES_MAX: Final = 60
_FAILURES_AT_ONCE: Final = 10
"""How many wrong tokens one address may send before it is slowed down. The walk then uses the next address."""
_PARAMETERS: Final = {"job": "hourly", "called": "hourly", "what": "pause", "place": "0", "number": "0"}
CALLERS: Final = {
    "own user": "the user who runs the node, or root, on loopback; the store has no token",
    "other user": "another user of the machine, on loopback; the store has no token",
    "own user, tokens": "the same as *own user*, and the store has a token",
    "anonymous": "no token, by the public name of the node, with `web_names`",
    "read": "a token of scope `read`",
    "operate": "a token of scope `operate`",
    "admin": "a token of scope `admin`",
    "expired": "a token of scope `admin` that has expired",
    "revoked": "a token of scope `admin` that was revoked",
    **{kind: f"no token, through {kind}, with `web_names`" for kind in KINDS},
    **{f"{kind}, as local": f"no token, through {kind}, with `Host: 127.0.0.1:PORT` of the node" for kind in KINDS},
    **{f"{kind}, read": f"a token of scope `read`, through {kind}" for kind in KINDS},
}


class Route(NamedTuple):
    """A route of the application."""

    method: str
    path: str
    needs: str


Ask = Callable[[Route], int]


def routes() -> list[Route]:
    """Return all routes of the application, by their paths."""
    found = [Route(route.method, route.path, str(route.needs)) for route in (*PAGES, *API_ROUTES)]
    return sorted(found, key=lambda route: (route.path, route.method))


def walk(folder: Path) -> dict[str, list[str] | None]:
    """Ask every route as every caller. Returns a column for each caller; None where this machine cannot."""
    columns: dict[str, list[str] | None] = dict.fromkeys(CALLERS)
    asked = routes()
    with node(_made(folder / "without")) as address:
        columns["own user"] = _column(asked, _asking(port_of(address), address))
        if os.geteuid() == 0:
            columns["other user"] = _column(asked, _asking(port_of(address), address, user=OTHER_USER))
    place = _made(folder / "with")
    tokens = _tokens(place)
    with node(place) as address:
        port = port_of(address)
        columns["own user, tokens"] = _column(asked, _asking(port, address))
        bearer = {"Authorization": f"Bearer {tokens['expired']}"}
        deadline = time.monotonic() + PATIENCE
        while ask_page(address, "/api/v1/jobs", bearer).status != 401:
            assert time.monotonic() < deadline, "the token that was to expire has not"
        for name, text in tokens.items():
            columns[name] = _column(asked, _asking(port, address, token=text))
    with node(place, NAMED) as address:
        columns["anonymous"] = _column(asked, _asking(port_of(address), NAME))
        for kind in filter(is_installed, KINDS):
            with proxy(kind, folder / kind, address) as port:
                columns[kind] = _column(asked, _asking(port, NAME))
                columns[f"{kind}, as local"] = _column(asked, _asking(port, address))
                columns[f"{kind}, read"] = _column(asked, _asking(port, NAME, token=tokens["read"]))
    return columns


def written(columns: dict[str, list[str] | None]) -> str:
    """Return the tables of the page: callers, and what each may do."""
    lines = ["| Caller | Who it is |", "|---|---|"]
    lines += [f"| {name} | {meaning} |" for name, meaning in CALLERS.items()]
    lines += ["", f"| Route | Needs | {' | '.join(CALLERS)} |", f"|---|---|{'---|' * len(CALLERS)}"]
    for place, route in enumerate(routes()):
        cells = [column[place] if (column := columns[name]) is not None else "?" for name in CALLERS]
        lines.append(f"| `{route.method} {route.path}` | {route.needs} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _tokens(folder: Path) -> dict[str, str]:
    """Make a token of each kind."""
    made = {scope.value: make_token(folder, scope.value, scope) for scope in Scope}
    made["expired"] = make_token(folder, "expired", expires="1s")
    made["revoked"] = make_token(folder, "revoked")
    revoke_token(folder, "revoked")
    return made


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _asking(port: int, host: str, *, token: str | None = None, user: int | None = None) -> Ask:
    counter, proof = itertools.count(), _proof(port, host)

    def ask(route: Route) -> int:
        for _ in range(_TRIES_MAX):
            if (status := ask_once(route)) != _TOO_MANY:
                return status
            time.sleep(1.0)
        raise AssertionError(f"{route}: refused as too many for {_TRIES_MAX} s, so the answer is not known")

    def ask_once(route: Route) -> int:
        path = route.path
        while "{" in path:
            before, _, rest = path.partition("{")
            name, _, after = rest.partition("}")
            path = f"{before}{_PARAMETERS.get(name, 'x')}{after}"
        lines = [f"{route.method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"Authorization: Bearer {token}"] if token else []
        lines += ["Content-Type: application/json", "Content-Length: 0"] if route.method == "POST" else []
        lines += [f"X-CSRF-Token: {proof}"] if route.needs == PUBLIC else []
        source = f"127.0.{next(counter) // _FAILURES_AT_ONCE + 1}.1"
        return status_line(port, "\r\n".join([*lines, "", ""]), user=user, source=source)

    return ask


def _proof(port: int, host: str) -> str:
    """Return the form token of the page to sign in on, which a public form carries; empty if the host is refused."""
    found = re.search(r'name="_csrf" value="([^"]*)"', ask_page(f"127.0.0.1:{port}", "/login", {"Host": host}).body)
    return "" if found is None else found[1]


def _column(asked: list[Route], ask: Ask) -> list[str]:
    return [_cell(ask(route), route.needs) for route in asked]


def _cell(status: int, needs: str) -> str:
    """Return what the door said. The page to sign in on is public, and answers 401 itself: for an empty token."""
    is_own = needs == PUBLIC and status == 401
    return "yes" if is_own else str(status) if status in _REFUSED else "yes"
