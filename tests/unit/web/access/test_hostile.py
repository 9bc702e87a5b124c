"""A table of hostile requests: each is turned away, and what is said about it gives nothing away (Q1, Q2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt
from itinerary.operations.tokens import FRESH_FOR, digest_of, new_text
from itinerary.web.access import PUBLIC, Caller, Need, Rejection
from tests.local_callers import ME
from tests.unit.web.access.gatehouse import EVERYWHERE, HOUR, LOOPBACK, Gatehouse

ADMIN, OPERATE, READ = Scope.ADMIN, Scope.OPERATE, Scope.READ
SITE = "http://127.0.0.1:8080"


class Hostile(NamedTuple):
    """A request, and how it is turned away."""

    status: int
    code: str
    method: str = "GET"
    needs: Need | None = READ
    headers: dict[str, str] | Callable[[Props], dict[str, str]] = {}  # noqa: RUF012 - nobody changes it
    more: tuple[tuple[bytes, bytes], ...] = ()
    """Further headers, as bytes, repeated."""
    at: ListenAt = LOOPBACK
    client: str = "127.0.0.1"


class Props(NamedTuple):
    """What an attacker may have got hold of."""

    tokens: dict[str, str]
    cookies: dict[str, str]
    csrf: dict[str, str]


def bearer(name: str) -> Callable[[Props], dict[str, str]]:
    return lambda props: {"Authorization": f"Bearer {props.tokens[name]}"}


def session(name: str, **more: str) -> Callable[[Props], dict[str, str]]:
    return lambda props: {
        "Cookie": props.cookies[name],
        **{key.replace("_", "-"): value for key, value in more.items()},
    }


REMOTE: dict[str, Any] = {"at": EVERYWHERE, "client": "203.0.113.9"}

TABLE = {
    # -- wrong host: DNS rebinding, smuggling
    "a page whose name was made to lead here": Hostile(421, "wrong_host", headers={"Host": "evil.example:8080"}),
    "rebinding with a name that begins like ours": Hostile(
        421, "wrong_host", headers={"Host": "127.0.0.1.evil.example:8080"}
    ),
    "rebinding with a name that ends like ours": Hostile(421, "wrong_host", headers={"Host": "evil-localhost:8080"}),
    "rebinding with a change": Hostile(421, "wrong_host", "POST", ADMIN, {"Host": "evil.example:8080"}),
    "rebinding with a good token": Hostile(
        421, "wrong_host", headers=lambda p: {"Host": "evil.example", **bearer("root")(p)}
    ),
    "the right host with a wrong port": Hostile(421, "wrong_host", headers={"Host": "localhost:8081"}),
    "the right host without its port": Hostile(421, "wrong_host", headers={"Host": "localhost"}),
    "no host": Hostile(421, "wrong_host", headers={"Host": ""}),
    "a host with a user": Hostile(421, "wrong_host", headers={"Host": "localhost:8080@evil.example"}),
    "a host with a path": Hostile(421, "wrong_host", headers={"Host": "localhost:8080/api"}),
    "a host in letters that look like ours": Hostile(421, "wrong_host", headers={"Host": "lοcalhost:8080"}),
    "two hosts": Hostile(400, "bad_header", more=((b"host", b"evil.example"),)),
    "two hosts in one": Hostile(421, "wrong_host", headers={"Host": "127.0.0.1:8080, evil.example"}),
    "a host that is no name, elsewhere": Hostile(421, "wrong_host", headers={"Host": "<script>"}, **REMOTE),
    # -- wrong origin: pages of other sites
    "a form of another site": Hostile(403, "foreign", "POST", ADMIN, {"Origin": "http://evil.example"}),
    "a form in a sandbox": Hostile(
        403, "foreign", "POST", ADMIN, {"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    ),
    "a form in a sandbox of a browser that says little": Hostile(403, "foreign", "POST", ADMIN, {"Origin": "null"}),
    "a form of another port of this machine": Hostile(
        403, "foreign", "POST", ADMIN, {"Origin": "http://127.0.0.1:3000"}
    ),
    "another port, as the browser says it": Hostile(403, "foreign", "POST", ADMIN, {"Sec-Fetch-Site": "same-site"}),
    "another site, as the browser says it": Hostile(403, "foreign", "POST", ADMIN, {"Sec-Fetch-Site": "cross-site"}),
    "an origin that begins like ours": Hostile(403, "foreign", "POST", ADMIN, {"Origin": f"{SITE}.evil.example"}),
    "our name with another scheme": Hostile(403, "foreign", "POST", ADMIN, {"Origin": "https://127.0.0.1:8080"}),
    "another name of this machine": Hostile(403, "foreign", "POST", ADMIN, {"Origin": "http://localhost:8080"}),
    "another site with JSON and a key": Hostile(
        403,
        "foreign",
        "POST",
        ADMIN,
        {"Origin": "http://evil.example", "Content-Type": "application/json", "Idempotency-Key": "1"},
    ),
    "another site with a stolen token": Hostile(
        403, "foreign", "POST", ADMIN, lambda p: {"Origin": "http://evil.example", **bearer("root")(p)}
    ),
    "another site with a stolen form token": Hostile(
        403, "foreign", "POST", ADMIN, lambda p: {"Origin": "http://evil.example", "X-CSRF-Token": p.csrf[ME]}
    ),
    "another site in a session": Hostile(
        403, "foreign", "POST", ADMIN, session("root", Origin="http://evil.example"), **REMOTE
    ),
    "two origins": Hostile(400, "bad_header", "POST", ADMIN, {"Origin": SITE}, ((b"Origin", b"http://evil.example"),)),
    "a script of another site that reads": Hostile(403, "foreign", headers={"Origin": "http://evil.example"}),
    "a picture in another site": Hostile(
        403, "foreign", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    ),
    "a frame in another site": Hostile(
        403,
        "foreign",
        headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ),
    "signing somebody else in": Hostile(403, "foreign", "POST", PUBLIC, {"Origin": "http://evil.example"}, **REMOTE),
    # -- unproven changes
    "a form without a form token": Hostile(403, "unproven", "POST", ADMIN, {"Origin": SITE}),
    "a form token that was made up": Hostile(
        403, "unproven", "POST", ADMIN, {"Origin": SITE, "X-CSRF-Token": "A" * 43}
    ),
    "a form token that is no text": Hostile(
        403, "unproven", "POST", ADMIN, {"Origin": SITE, "X-CSRF-Token": "é\N{SNOWMAN}"}
    ),
    "a form token of the page to sign in on": Hostile(
        403, "unproven", "POST", ADMIN, lambda p: {"Origin": SITE, "X-CSRF-Token": p.csrf["public"]}
    ),
    "a form token of somebody else's session": Hostile(
        403,
        "unproven",
        "POST",
        ADMIN,
        lambda p: {"Cookie": p.cookies["root"], "X-CSRF-Token": p.csrf["reader"]},
        **REMOTE,
    ),
    "a change in a session without a form token": Hostile(403, "unproven", "DELETE", ADMIN, session("root"), **REMOTE),
    "JSON in a session without a form token": Hostile(
        403, "unproven", "POST", ADMIN, session("root", Content_Type="application/json"), **REMOTE
    ),
    "plain text on loopback": Hostile(403, "unproven", "POST", ADMIN, {"Content-Type": "text/plain"}),
    "text that only looks like JSON": Hostile(
        403, "unproven", "POST", ADMIN, {"Content-Type": "text/plain; application/json"}
    ),
    # -- wrong method
    "TRACE": Hostile(405, "unknown_method", "TRACE"),
    "CONNECT": Hostile(405, "unknown_method", "CONNECT"),
    "a method in small letters": Hostile(405, "unknown_method", "post", ADMIN),
    "a method that was made up": Hostile(405, "unknown_method", "GET\r\nX: y"),
    "no method": Hostile(405, "unknown_method", ""),
    # -- tokens
    "nobody, elsewhere": Hostile(401, "no_token", **REMOTE),
    "nobody, elsewhere, from this machine": Hostile(401, "no_token", at=EVERYWHERE),
    "nobody who says that he is local": Hostile(401, "no_token", headers={"X-Forwarded-For": "127.0.0.1"}, **REMOTE),
    "a password, on loopback": Hostile(401, "wrong_token", headers={"Authorization": "Basic cm9vdDpyb290"}),
    "somebody behind a proxy": Hostile(401, "proxied", headers={"X-Forwarded-For": "203.0.113.9"}),
    "a token that was made up": Hostile(401, "wrong_token", headers=bearer("unknown"), **REMOTE),
    "a token that was made up, on loopback": Hostile(401, "wrong_token", headers=bearer("unknown")),
    "an expired token": Hostile(401, "wrong_token", headers=bearer("expired"), **REMOTE),
    "a revoked token": Hostile(401, "wrong_token", headers=bearer("revoked"), **REMOTE),
    "a revoked token, on loopback": Hostile(401, "wrong_token", headers=bearer("revoked")),
    "the hash of a token, from a stolen backup": Hostile(401, "wrong_token", headers=bearer("hash"), **REMOTE),
    "a token that was cut off": Hostile(401, "wrong_token", headers=bearer("cut"), **REMOTE),
    "a token in capitals": Hostile(401, "wrong_token", headers=bearer("capital"), **REMOTE),
    "two tokens in one": Hostile(401, "wrong_token", headers=bearer("two"), **REMOTE),
    "two authorizations": Hostile(
        400, "bad_header", headers=bearer("root"), more=((b"authorization", b"Bearer x"),), **REMOTE
    ),
    "a password": Hostile(401, "wrong_token", headers={"Authorization": "Basic cm9vdDpyb290"}, **REMOTE),
    "Bearer, and nothing": Hostile(401, "wrong_token", headers={"Authorization": "Bearer "}, **REMOTE),
    "an empty authorization": Hostile(401, "wrong_token", headers={"Authorization": ""}, **REMOTE),
    "SQL for a token": Hostile(401, "wrong_token", headers={"Authorization": "Bearer ' OR 1=1 --"}, **REMOTE),
    "a token in a header of another name": Hostile(
        401, "no_token", headers=lambda p: {"X-Api-Key": p.tokens["root"]}, **REMOTE
    ),
    # -- scopes and routes
    "a reader who changes": Hostile(403, "too_little", "POST", OPERATE, bearer("reader"), **REMOTE),
    "a reader who administers": Hostile(403, "too_little", "POST", ADMIN, bearer("reader"), **REMOTE),
    "an operator who administers": Hostile(403, "too_little", "PUT", ADMIN, bearer("operator"), **REMOTE),
    "a reader in a session who changes": Hostile(403, "too_little", "POST", OPERATE, session("reader"), **REMOTE),
    "a reader on loopback who changes": Hostile(403, "too_little", "POST", OPERATE, bearer("reader")),
    "a reader who looks at what is the administrator's": Hostile(
        403, "too_little", "GET", ADMIN, bearer("reader"), **REMOTE
    ),
    "an administrator on a route without a rule": Hostile(403, "no_rule", "GET", None, bearer("root"), **REMOTE),
    "this machine on a route without a rule": Hostile(403, "no_rule", "GET", None),
    # -- sessions
    "a session of a revoked token": Hostile(401, "session_over", headers=session("revoked"), **REMOTE),
    "a session of an expired token": Hostile(401, "session_over", headers=session("expired"), **REMOTE),
    "a session that was changed": Hostile(401, "session_over", headers=session("changed"), **REMOTE),
    "a session of another server": Hostile(401, "session_over", headers=session("other server"), **REMOTE),
    "a session without a signature": Hostile(401, "session_over", headers=session("unsigned"), **REMOTE),
    "a session that is no session": Hostile(
        401, "session_over", headers={"Cookie": "itinerary_session_8080=admin"}, **REMOTE
    ),
    "two sessions, one of a neighbour": Hostile(401, "no_token", headers=session("two"), **REMOTE),
    "a token in place of a session": Hostile(
        401, "session_over", headers=lambda p: {"Cookie": f"itinerary_session_8080={p.tokens['root']}"}, **REMOTE
    ),
    "a session of http over https": Hostile(401, "no_token", headers=session("of http"), **REMOTE),
    # -- headers
    "a header of a megabyte": Hostile(431, "headers_too_large", headers={"X-Big": "x" * 1_000_000}),
    "a token of a megabyte": Hostile(
        431, "headers_too_large", headers={"Authorization": f"Bearer {'x' * 1_000_000}"}, **REMOTE
    ),
    "a cookie of a megabyte": Hostile(
        431, "headers_too_large", headers={"Cookie": f"itinerary_session_8080={'x' * 1_000_000}"}
    ),
    "a thousand headers": Hostile(431, "headers_too_large", more=tuple((b"x-%d" % n, b"") for n in range(1_000))),
    "a header with a line break": Hostile(
        400, "bad_header", headers={"Authorization": "Bearer x\r\nX-Admin: 1"}, **REMOTE
    ),
    "a header with a NUL": Hostile(400, "bad_header", headers={"X-CSRF-Token": "a\0b"}),
    "two form tokens": Hostile(400, "bad_header", "POST", ADMIN, {"X-CSRF-Token": "a"}, ((b"x-csrf-token", b"b"),)),
    "two content types": Hostile(
        400, "bad_header", "POST", ADMIN, {"Content-Type": "application/json"}, ((b"content-type", b"text/plain"),)
    ),
    "bytes that are no text": Hostile(401, "wrong_token", more=((b"authorization", b"Bearer \xff\xfe\x80"),), **REMOTE),
}


async def prepared(server: Gatehouse, row: Hostile) -> Props:
    """Tokens of all kinds, sessions of all kinds, and what stands in the pages of this door."""
    for name, scope in (("root", ADMIN), ("operator", OPERATE), ("reader", READ), ("revoked", ADMIN)):
        await server.token(name, scope)
    await server.token("expired", ADMIN, expires="1h")
    server.open(row.at)
    elsewhere = await server.cookie("root")
    door = server.open(row.at)
    cookies = {name: await server.cookie(name) for name in ("root", "reader", "revoked", "expired")}
    await server.revoke("revoked")
    server.pass_by(HOUR + FRESH_FOR)
    root, tokens = server.texts["root"], dict(server.texts)
    tokens |= {"unknown": new_text(), "hash": str(digest_of(root)), "cut": root[:-1], "capital": root.upper()}
    tokens["two"] = f"{root} {root}"
    name, _, value = cookies["root"].partition("=")
    said = value.split(".")[1]
    cookies |= {
        "changed": f"{name}={value[:9]}{'A' if value[9] != 'A' else 'B'}{value[10:]}",
        "other server": elsewhere,
        "unsigned": f"{name}=v1.{said}.",
        "two": f"{cookies['reader']}; {cookies['root']}",
        "of http": f"__Host-itinerary_session={value}",
    }
    csrf = {}
    for who, headers in (("reader", {"Cookie": cookies["reader"]}), (ME, {})):
        answer = await door.admit(server.visit("GET", READ, headers))
        csrf[who] = answer.csrf if isinstance(answer, Caller) else ""
    csrf["public"] = (await server.admitted("GET", PUBLIC)).csrf
    return Props(tokens, cookies, csrf)


@pytest.mark.spec("Q1")
@pytest.mark.spec("Q2", "cross-site")
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_it_is_turned_away_and_hears_why_and_nothing_else(row: Hostile) -> None:
    async def story() -> None:
        server = Gatehouse()
        async with server.store:
            props = await prepared(server, row)
            headers = row.headers(props) if callable(row.headers) else row.headers
            answer = await server.ask(row.method, row.needs, headers, more=list(row.more), client=row.client)
        assert isinstance(answer, Rejection), answer
        assert (answer.status, answer.code) == (row.status, row.code), answer
        told = f"{answer.title} {answer.detail}"
        assert told.isprintable()
        assert len(told) < 600
        assert all(name.isascii() and value.isprintable() for name, value in answer.headers)
        assert (dict(answer.headers).get("WWW-Authenticate") is not None) == (
            answer.status == 401 or answer.code == "too_little"
        )
        secrets = [*props.tokens.values(), *props.cookies.values(), *filter(None, props.csrf.values())]
        assert not [secret for secret in secrets if secret in f"{answer!r}"]

    asyncio.run(story())


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(TABLE) >= 40
