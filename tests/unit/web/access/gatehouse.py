"""A door with somebody behind it: a store on a clock that the test moves, its tokens, and requests to send."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from itinerary.errors import StoreUnavailable
from itinerary.model.queries import Answer, Query
from itinerary.model.scopes import LocalScope, Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import TokenBook, create, revoke
from itinerary.schedules.durations import SECOND
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.store import EngineStore
from itinerary.web.access import Admission, Caller, Need, RateLimits, Rejection, RequestHead
from itinerary.web.access.peers import Connection

__all__ = ["EVERYWHERE", "HOUR", "LOOPBACK", "Gatehouse", "told"]

HOUR = 3_600 * SECOND
LOOPBACK = ListenAt("127.0.0.1", 8080)
EVERYWHERE = ListenAt("0.0.0.0", 8080)  # noqa: S104 - nothing listens in these tests


CONNECTION = Connection(("127.0.0.1", 50_000), ("127.0.0.1", 8080))


class Gatehouse:
    """A store, its tokens, and a door."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND
        self.store = EngineStore(MemoryEngine(lambda: self.now))
        self.is_away = False
        self.texts: dict[str, str] = {}
        self.user: int | None = os.geteuid()
        """The user who opens the connections."""
        self.door = self.open(LOOPBACK)

    def open(
        self,
        at: ListenAt,
        *,
        names: Collection[str] = (),
        proxies: Collection[str] = (),
        limits: RateLimits | None = None,
        key: bytes | None = None,
        local: LocalScope | None = LocalScope.ADMIN,
    ) -> Admission:
        """A new door, as after a start; the one that `ask` knocks at."""
        book = TokenBook(self._read, elapsed=self.elapsed)
        self.door = Admission(
            at,
            book,
            names=names,
            proxies=proxies,
            local=local,
            owner_of=lambda _: self.user,
            limits=limits,
            key=key,
            elapsed=self.elapsed,
        )
        return self.door

    async def _read(self, query: Query[Answer]) -> Answer:
        if self.is_away:
            raise StoreUnavailable("memory: does not answer")
        return await self.store.read(query)

    def elapsed(self) -> int:
        return self.now

    def pass_by(self, microseconds: int) -> None:
        self.now += microseconds

    async def token(self, name: str, scope: Scope = Scope.ADMIN, expires: str | None = None) -> str:
        self.texts[name] = (await create(self.store, name, scope, by="anna", expires=expires)).text
        return self.texts[name]

    async def revoke(self, name: str) -> None:
        await revoke(self.store, name, by="anna")

    def visit(
        self,
        method: str = "GET",
        needs: Need | None = Scope.READ,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> RequestHead:
        """A request. The host is this door's own, unless the headers say otherwise; an empty one leaves it out."""
        said = {"Host": "127.0.0.1:8080", **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in said.items() if value or name != "Host"]
        given = {"client": "127.0.0.1", "connection": CONNECTION, **values}
        return RequestHead(method, needs, pairs + given.pop("more", []), **given)

    async def ask(
        self,
        method: str = "GET",
        needs: Need | None = Scope.READ,
        headers: Mapping[str, str] | None = None,
        **values: Any,
    ) -> Caller | Rejection:
        return await self.door.admit(self.visit(method, needs, headers, **values))

    async def admitted(self, *args: Any, **values: Any) -> Caller:
        answer = await self.ask(*args, **values)
        assert isinstance(answer, Caller), answer
        return answer

    async def rejected(self, *args: Any, **values: Any) -> Rejection:
        answer = await self.ask(*args, **values)
        assert isinstance(answer, Rejection), answer
        return answer

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.texts[name]}"}

    async def cookie(self, name: str, scheme: str = "http") -> str:
        """Sign in with a token, and return the cookie that the browser sends from then on."""
        answer = await self.door.sign_in(self.visit("POST", "public", scheme=scheme), self.texts[name])
        assert isinstance(answer, Caller), answer
        ((header, cookie),) = answer.headers
        assert header == "Set-Cookie"
        return cookie.partition(";")[0]


def told(story: Callable[[Gatehouse], Awaitable[None]]) -> Callable[[], None]:
    """A test that is told as a story at a gatehouse."""

    def test() -> None:
        async def run() -> None:
            server = Gatehouse()
            async with server.store:
                await story(server)

        asyncio.run(run())

    test.__name__, test.__doc__ = story.__name__, story.__doc__
    test.__dict__.update(story.__dict__)
    return test
