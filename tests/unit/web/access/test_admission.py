"""Who is let in, as whom, and what a change has to bring (Q1, Q2, Q4, Q6)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.model.scopes import LocalScope, Scope
from itinerary.operations.tokens import FRESH_FOR, STALE_FOR, TokenBook
from itinerary.schedules.durations import SECOND
from itinerary.web.access import PUBLIC, Admission, Caller, CallerSource, RateLimits, Rejection
from itinerary.web.access.sessions import SESSION_FOR
from tests.local_callers import ME
from tests.unit.web.access.gatehouse import EVERYWHERE, HOUR, LOOPBACK, Gatehouse, told

PAGE = {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"}
"""What a browser says when one of our own pages asks."""


async def field(value: str | None) -> str | None:
    return value


# -- loopback ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q2", "local")
@told
async def test_a_local_caller_may_operate_until_the_store_has_a_token(server: Gatehouse) -> None:
    server.open(LOOPBACK, local=None)
    assert (await server.admitted("GET", Scope.OPERATE)).scope is Scope.OPERATE
    refused = await server.rejected("POST", Scope.ADMIN, {"Idempotency-Key": "1"})
    assert (refused.code, "web_local" in refused.detail) == ("too_little", True)
    await server.token("ci")
    server.pass_by(FRESH_FOR)
    assert (await server.rejected()).code == "no_token"
    await server.revoke("ci")
    server.pass_by(FRESH_FOR)
    assert (await server.admitted()).scope is Scope.OPERATE


@pytest.mark.spec("Q2", "local")
@told
async def test_an_expired_token_does_not_let_local_callers_in_again(server: Gatehouse) -> None:
    server.open(LOOPBACK, local=None)
    await server.token("ci", expires="1h")
    server.pass_by(2 * HOUR)
    assert (await server.rejected()).code == "no_token"


@pytest.mark.spec("Q2", "local")
@told
async def test_while_the_store_does_not_answer_local_callers_keep_what_they_had(server: Gatehouse) -> None:
    server.open(LOOPBACK, local=None)
    server.is_away = True
    assert (await server.rejected()).code == "store_away", "nothing is known yet"
    server.is_away = False
    server.pass_by(FRESH_FOR)
    assert (await server.admitted()).scope is Scope.OPERATE
    server.is_away = True
    server.pass_by(FRESH_FOR)
    assert (await server.admitted()).scope is Scope.OPERATE
    server.pass_by(STALE_FOR)
    assert (await server.rejected()).code == "store_away"


@pytest.mark.spec("Q2", "local")
@told
async def test_the_setting_says_what_a_local_caller_may_do_with_tokens_or_without(server: Gatehouse) -> None:
    await server.token("ci")
    for local, scope in ((LocalScope.READ, Scope.READ), (LocalScope.OPERATE, Scope.OPERATE)):
        server.open(LOOPBACK, local=local)
        assert (await server.admitted()).scope is scope
    server.open(LOOPBACK, local=LocalScope.NONE)
    assert (await server.rejected()).code == "no_token"


@pytest.mark.spec("Q2", "local")
@told
async def test_another_user_of_this_machine_is_not_local(server: Gatehouse) -> None:
    server.user = 65_534
    refused = await server.rejected()
    assert (refused.code, "'nobody'" in refused.detail) == ("other_user", True)
    server.user = None
    assert (await server.rejected()).code == "other_user", "a connection whose user is not known"
    server.user = 0
    assert (await server.admitted()).name == "root"


@pytest.mark.spec("Q2", "local")
@told
async def test_on_loopback_who_asks_without_a_token_is_local_and_may_do_everything(server: Gatehouse) -> None:
    caller = await server.admitted("GET", Scope.ADMIN)
    assert (caller.name, caller.scope, caller.came, caller.headers) == (ME, Scope.ADMIN, CallerSource.LOOPBACK, ())
    assert caller.may(Scope.ADMIN)
    change = await server.admitted("POST", Scope.ADMIN, {**PAGE, "X-CSRF-Token": caller.csrf})
    assert change == caller


@pytest.mark.spec("Q2", "cross-site")
@told
async def test_a_form_brings_its_token_in_a_field_which_is_read_last_and_only_if_needed(server: Gatehouse) -> None:
    caller = await server.admitted()
    read: list[str] = []

    async def good() -> str:
        read.append("body")
        return caller.csrf

    assert await server.ask("POST", Scope.ADMIN, PAGE, form_token=good) == caller
    assert read == ["body"]
    for refused in (
        await server.rejected("POST", None, PAGE, form_token=good),
        await server.rejected("POST", Scope.ADMIN, {**PAGE, "Origin": "http://evil.example"}, form_token=good),
        await server.rejected("POST", Scope.ADMIN, {"Host": "evil.example"}, form_token=good),
        await server.rejected("POST", Scope.ADMIN, {"Authorization": "Bearer x"}, form_token=good),
    ):
        assert refused.status in {401, 403, 421}
    assert read == ["body"], "no body is read of who is turned away anyhow"
    assert (await server.rejected("POST", Scope.ADMIN, PAGE, form_token=lambda: field(None))).code == "unproven"
    assert (await server.rejected("POST", Scope.ADMIN, PAGE, form_token=lambda: field("x"))).code == "unproven"


@told
async def test_a_program_on_this_machine_needs_no_form_token_if_no_page_can_have_sent_it(server: Gatehouse) -> None:
    for headers in ({"Content-Type": "application/json; charset=utf-8"}, {"Idempotency-Key": "7"}):
        assert (await server.admitted("POST", Scope.ADMIN, headers)).name == ME
        for mark in ({"Cookie": "theme=dark"}, {"Referer": "http://127.0.0.1:8080/"}, {"Sec-Fetch-Site": "none"}):
            assert (await server.rejected("POST", Scope.ADMIN, {**headers, **mark})).code == "unproven"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert (await server.rejected("POST", Scope.ADMIN, {"Content-Type": kind})).code == "unproven"


@told
async def test_what_a_proxy_has_passed_on_is_not_local(server: Gatehouse) -> None:
    for header in (
        "Forwarded",
        "Via",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Real-IP",
        "CF-Connecting-IP",
        "True-Client-IP",
    ):
        assert (await server.rejected(headers={header: "10.0.0.7"})).code == "proxied"
    await server.token("ci")
    assert (await server.admitted(headers={"X-Forwarded-For": "10.0.0.7", **server.bearer("ci")})).name == "ci"


@told
async def test_who_asks_by_a_further_name_is_not_local_since_a_proxy_may_be_in_front(server: Gatehouse) -> None:
    server.open(LOOPBACK, names=["jobs.example.com"])
    for spelled in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080"):
        assert (await server.rejected(headers={"Host": spelled})).code == "wrong_host"
    assert (await server.rejected(headers={"Host": "jobs.example.com"})).code == "proxied"
    await server.token("ci")
    assert (await server.admitted(headers={"Host": "jobs.example.com", **server.bearer("ci")})).name == "ci"
    server.open(LOOPBACK, names=["localhost", "127.0.0.1"])
    assert (await server.rejected()).code == "proxied", "so that nobody is local"


@told
async def test_a_password_that_a_proxy_asks_for_is_no_hindrance_to_a_session_and_makes_nobody_local(
    server: Gatehouse,
) -> None:
    await server.token("anna")
    basic = {"Authorization": "Basic cm9vdDpyb290"}
    assert (await server.admitted(headers={"Cookie": await server.cookie("anna"), **basic})).name == "anna"
    for _ in range(20):
        assert (await server.rejected(headers=basic)).code == "wrong_token", "and nobody is slowed down by it"


@told
async def test_an_address_that_is_not_this_machines_is_not_local_even_on_loopback(server: Gatehouse) -> None:
    for client in ("192.168.1.7", "10.0.0.1", "2001:db8::1"):
        assert (await server.rejected(client=client)).code == "no_token"
    for here in ("127.0.0.1", "127.8.8.8", "::1", "testclient", None):
        assert (await server.admitted(client=here)).name == ME


@told
async def test_a_token_that_is_given_on_loopback_counts_and_one_that_is_wrong_does_not_become_local(
    server: Gatehouse,
) -> None:
    await server.token("reader", Scope.READ)
    assert (await server.admitted(headers=server.bearer("reader"))).name == "reader"
    assert (await server.rejected("POST", Scope.OPERATE, server.bearer("reader"))).code == "too_little"
    await server.revoke("reader")
    server.pass_by(FRESH_FOR)
    assert (await server.rejected(headers=server.bearer("reader"))).code == "wrong_token"


@pytest.mark.spec("Q7", "canary")
def test_no_token_and_no_cookie_is_in_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @told
    async def story(server: Gatehouse) -> None:
        asyncio.get_running_loop().set_debug(True)
        server.open(EVERYWHERE)
        text = await server.token("ci")
        cookie = await server.cookie("ci")
        for headers in ({"Authorization": f"Bearer {text}"}, {"Cookie": cookie}, {"Authorization": f"Bearer {text}0"}):
            for method, needs in (("GET", Scope.READ), ("POST", Scope.ADMIN), ("GET", None)):
                await server.ask(method, needs, headers)
        await server.door.sign_in(server.visit("POST", PUBLIC), f"{text}0")
        server.is_away = True
        server.pass_by(FRESH_FOR)
        await server.ask(headers=server.bearer("ci"))
        assert text[4:] not in caplog.text
        assert cookie.partition("=")[2] not in caplog.text

    with caplog.at_level(logging.DEBUG):
        story()
    assert caplog.records, "what is looked through is not empty"


# -- tokens ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q1", "scope")
@pytest.mark.parametrize("has", Scope)
@pytest.mark.parametrize("needs", Scope)
def test_a_token_may_do_what_its_scope_covers_and_nothing_else(has: Scope, needs: Scope) -> None:
    @told
    async def story(server: Gatehouse) -> None:
        server.open(EVERYWHERE)
        await server.token("ci", has)
        answer = await server.ask("POST", needs, server.bearer("ci"), client="10.0.0.7")
        if list(Scope).index(has) >= list(Scope).index(needs):
            assert answer == Caller("ci", has, CallerSource.BEARER, client="10.0.0.7")
        else:
            assert isinstance(answer, Rejection)
            assert (answer.status, answer.code) == (403, "too_little")
            assert answer.detail == f"This needs scope {needs}, and 'ci' has scope {has}."
            assert dict(answer.headers)["WWW-Authenticate"].endswith(f'error="insufficient_scope", scope="{needs}"')

    story()


@pytest.mark.spec("Q1", "elsewhere")
@told
async def test_elsewhere_nobody_is_local_not_even_who_connects_from_this_machine(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("ci")
    for client in ("10.0.0.7", "127.0.0.1", "::1"):
        rejection = await server.rejected(client=client)
        assert (rejection.status, rejection.code) == (401, "no_token")
        assert dict(rejection.headers) == {"WWW-Authenticate": 'Bearer realm="itinerary"'}
        assert (await server.admitted(client=client, headers=server.bearer("ci"))).name == "ci"


@pytest.mark.spec("Q1", "revoked")
@told
async def test_a_revoked_token_and_its_sessions_are_refused_after_a_second(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("ci")
    cookie = {"Cookie": await server.cookie("ci")}
    for headers in (server.bearer("ci"), cookie):
        await server.admitted(headers=headers)
    await server.revoke("ci")
    server.pass_by(FRESH_FOR)
    assert (await server.rejected(headers=server.bearer("ci"))).code == "wrong_token"
    over = await server.rejected(headers=cookie)
    assert (over.status, over.code) == (401, "session_over")
    assert "Max-Age=0" in dict(over.headers)["Set-Cookie"]


@told
async def test_a_token_that_expires_is_refused_at_that_moment(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("ci", expires="10s")
    cookie = {"Cookie": await server.cookie("ci")}
    server.pass_by(10 * SECOND - 1)
    await server.admitted(headers=server.bearer("ci"))
    await server.admitted(headers=cookie)
    server.pass_by(1)
    assert (await server.rejected(headers=server.bearer("ci"))).status == 401
    assert (await server.rejected(headers=cookie)).status == 401


@pytest.mark.spec("Q6")
@told
async def test_a_route_that_does_not_say_what_it_needs_is_open_to_nobody(server: Gatehouse) -> None:
    await server.token("root", Scope.ADMIN)
    for headers in ({}, server.bearer("root"), {"Cookie": await server.cookie("root")}):
        rejection = await server.rejected("GET", None, headers)
        assert (rejection.status, rejection.code) == (403, "no_rule")


@told
async def test_a_public_route_is_open_without_a_name_but_not_to_pages_of_other_sites(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    caller = await server.admitted("GET", PUBLIC, client="10.0.0.7")
    assert (caller.name, caller.scope, caller.came) == ("", None, CallerSource.PUBLIC)
    assert not caller.may(Scope.READ)
    proven = {"X-CSRF-Token": caller.csrf}
    assert await server.ask("POST", PUBLIC, proven, client="10.0.0.7") == caller
    assert (await server.rejected("POST", PUBLIC)).code == "unproven"
    assert (await server.rejected("POST", PUBLIC, {**proven, "Origin": "http://evil.example"})).code == "foreign"


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q2", "token's name")
@told
async def test_a_session_has_the_name_and_scope_of_its_token_and_lasts_twelve_hours(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("anna", Scope.OPERATE)
    cookie = {"Cookie": f"theme=dark; {await server.cookie('anna')}; other=1"}
    caller = await server.admitted(headers=cookie)
    assert (caller.name, caller.scope, caller.came) == ("anna", Scope.OPERATE, CallerSource.SESSION)
    assert SESSION_FOR == 12 * 3_600 * SECOND
    server.pass_by(SESSION_FOR - 1)
    await server.admitted(headers=cookie)
    server.pass_by(1)
    assert (await server.rejected(headers=cookie)).code == "session_over"


@pytest.mark.spec("Q2", "cross-site")
@told
async def test_a_change_in_a_session_needs_the_token_of_a_page_of_that_session(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("anna")
    first, second = [{"Cookie": await server.cookie("anna")} for _ in range(2)]
    mine, other = [await server.admitted(headers=headers) for headers in (first, second)]
    nobody = await server.admitted("GET", PUBLIC)
    assert len({mine.csrf, other.csrf, nobody.csrf}) == 3
    assert await server.ask("POST", Scope.ADMIN, {**first, "X-CSRF-Token": mine.csrf}) == mine
    for proof in ({}, {"X-CSRF-Token": other.csrf}, {"X-CSRF-Token": nobody.csrf}, {"X-CSRF-Token": ""}):
        for more in ({}, {"Content-Type": "application/json", "Idempotency-Key": "7"}):
            assert (await server.rejected("POST", Scope.ADMIN, {**first, **proof, **more})).code == "unproven"


@told
async def test_the_cookie_is_for_our_pages_only(server: Gatehouse) -> None:
    await server.token("anna")
    plain = await server.door.sign_in(server.visit("POST", PUBLIC), server.texts["anna"])
    assert isinstance(plain, Caller)
    name, _, rules = plain.headers[0][1].partition("=")
    assert name == "itinerary_session_8080"
    assert rules.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]
    secure = await server.door.sign_in(server.visit("POST", PUBLIC, scheme="https"), server.texts["anna"])
    assert isinstance(secure, Caller)
    name, _, rules = secure.headers[0][1].partition("=")
    assert name == "__Host-itinerary_session"
    assert rules.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200", "Secure"]
    ((header, gone),) = server.door.sign_out(server.visit("POST", Scope.READ))
    assert header == "Set-Cookie"
    assert gone.startswith("itinerary_session_8080=; ")
    assert "Max-Age=0" in gone


@told
async def test_a_restart_ends_sessions_unless_the_server_is_given_its_key(server: Gatehouse) -> None:
    await server.token("anna")
    server.open(EVERYWHERE)
    cookie = {"Cookie": await server.cookie("anna")}
    server.open(EVERYWHERE)
    assert (await server.rejected(headers=cookie)).code == "session_over"
    server.open(EVERYWHERE, key=b"k" * 32)
    cookie = {"Cookie": await server.cookie("anna")}
    server.open(EVERYWHERE, key=b"k" * 32)
    assert (await server.admitted(headers=cookie)).name == "anna"
    with pytest.raises(ConfigError, match="31 bytes; give at least 32"):
        server.open(EVERYWHERE, key=b"k" * 31)


@told
async def test_on_loopback_a_session_that_is_over_is_no_hindrance(server: Gatehouse) -> None:
    await server.token("anna", Scope.READ)
    cookie = {"Cookie": await server.cookie("anna")}
    assert (await server.admitted(headers=cookie)).name == "anna"
    server.pass_by(SESSION_FOR)
    assert (await server.admitted(headers=cookie)).name == ME


@told
async def test_a_session_is_not_that_of_another_token_with_the_same_name(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("anna")
    cookie = {"Cookie": await server.cookie("anna")}
    await server.revoke("anna")
    server.pass_by(91 * 24 * 3_600 * SECOND)
    await server.token("anna")
    fresh = {"Cookie": await server.cookie("anna")}
    assert (await server.rejected(headers=cookie)).code == "session_over"
    assert (await server.admitted(headers=fresh)).name == "anna"


@told
async def test_wrong_tokens_at_the_sign_in_are_slowed_down_and_a_right_one_passes(
    server: Gatehouse,
) -> None:
    server.open(EVERYWHERE)
    await server.token("anna")
    post = server.visit("POST", PUBLIC, client="10.0.0.7")
    for _ in range(10):
        wrong = await server.door.sign_in(post, "itn_guess")
        assert isinstance(wrong, Rejection)
        assert (wrong.status, wrong.code) == (401, "wrong_token")
    slowed = await server.door.sign_in(post, "itn_guess")
    assert isinstance(slowed, Rejection)
    assert (slowed.status, dict(slowed.headers)["Retry-After"]) == (429, "5")
    elsewhere = server.visit("POST", PUBLIC, client="10.0.0.8")
    assert isinstance(await server.door.sign_in(elsewhere, server.texts["anna"]), Caller)
    assert isinstance(await server.door.sign_in(post, f" {server.texts['anna']}\n"), Caller)


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q4", "rate")
@told
async def test_each_token_has_its_own_rate_and_looking_does_not_use_up_changing(server: Gatehouse) -> None:
    server.open(
        EVERYWHERE, limits=RateLimits(reads_per_second=2, reads_at_once=3, changes_per_second=1, changes_at_once=1)
    )
    for name in ("a", "b"):
        await server.token(name)
    for _ in range(3):
        await server.admitted(headers=server.bearer("a"))
    slowed = await server.rejected(headers=server.bearer("a"))
    assert (slowed.status, slowed.code, dict(slowed.headers)) == (429, "too_many", {"Retry-After": "1"})
    assert slowed.detail == "There are too many requests at once. Try again in 1 s."
    await server.admitted("POST", Scope.ADMIN, server.bearer("a"))
    assert (await server.rejected("POST", Scope.ADMIN, server.bearer("a"))).status == 429
    await server.admitted(headers=server.bearer("b"))
    server.pass_by(SECOND // 2)
    await server.admitted(headers=server.bearer("a"))
    assert (await server.rejected(headers=server.bearer("a"))).status == 429


@pytest.mark.spec("Q4", "rate")
@told
async def test_a_wrong_token_never_locks_out_a_right_one_of_the_same_address(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("good")
    await server.token("unused")
    await server.admitted(headers=server.bearer("good"), client="10.0.0.7")
    for _ in range(10):
        assert (await server.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 401
    assert (await server.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 429
    await server.admitted(headers=server.bearer("good"), client="10.0.0.7")
    await server.admitted(headers=server.bearer("unused"), client="10.0.0.7")
    await server.token("new")
    server.pass_by(FRESH_FOR)
    assert (await server.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 429
    await server.admitted(headers=server.bearer("new"), client="10.0.0.7")
    await server.revoke("unused")
    server.pass_by(FRESH_FOR)
    assert (await server.rejected(headers=server.bearer("unused"), client="10.0.0.7")).status == 429


@pytest.mark.spec("Q4", "rate")
@told
async def test_sign_ins_are_not_kept_out_by_other_requests_of_the_same_address(server: Gatehouse) -> None:
    server.open(EVERYWHERE, limits=RateLimits(reads_per_second=1, reads_at_once=1, changes_at_once=1))
    page = await server.admitted("GET", PUBLIC, client="10.0.0.7")
    for _ in range(20):
        proven = {"X-CSRF-Token": page.csrf}
        assert isinstance(await server.ask("POST", PUBLIC, proven, client="10.0.0.7"), Caller)


PROXIED = {"Host": "jobs.example.com"}


@pytest.mark.spec("Q4", "behind a proxy")
@told
async def test_behind_a_trusted_proxy_the_address_of_the_client_counts(server: Gatehouse) -> None:
    server.open(
        LOOPBACK,
        names=["jobs.example.com"],
        proxies=["127.0.0.1", "10.1.0.0/16"],
        limits=RateLimits(reads_per_second=1, reads_at_once=1),
    )

    async def asks(forwarded: str, header: str = "X-Forwarded-For", **values: Any) -> tuple[int, str]:
        answer = await server.rejected(headers={**PROXIED, header: forwarded}, **values)
        return answer.status, answer.client

    assert await asks("203.0.113.5") == (401, "203.0.113.5")
    assert await asks("203.0.113.5") == (429, "203.0.113.5")
    assert await asks("203.0.113.6") == (401, "203.0.113.6")
    assert await asks("198.51.100.1, 203.0.113.6") == (429, "203.0.113.6"), "the client wrote the first"
    assert await asks("203.0.113.7, 10.1.2.3") == (401, "203.0.113.7"), "through two proxies"
    assert await asks("203.0.113.8:4711") == (401, "203.0.113.8")
    assert await asks('for="[2001:db8::1]:4711";proto=https', "Forwarded") == (401, "2001:db8::/64")
    assert await asks("for=203.0.113.9, for=10.1.0.1", "Forwarded") == (401, "203.0.113.9")
    assert await asks("203.0.113.10, nonsense") == (401, "127.0.0.1"), "what cannot be read does not count"
    assert await asks("10.1.9.9") == (429, "127.0.0.1"), "there is no client in it"
    assert await asks("203.0.113.11", client="192.0.2.9") == (401, "192.0.2.9"), "no proxy of ours says so"
    both = {**PROXIED, "X-Forwarded-For": "203.0.113.12", "Forwarded": "for=203.0.113.13"}
    assert (await server.rejected(headers=both)).client == "127.0.0.1", "the proxy wrote only one of them"


@pytest.mark.spec("Q1", "behind a proxy")
@told
async def test_no_caller_is_local_where_a_proxy_is_trusted(server: Gatehouse) -> None:
    server.open(LOOPBACK, proxies=["127.0.0.1"])
    assert (await server.rejected()).code == "proxied"


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"web_proxies: 'proxy.example.com' is no address and no network; write"):
        Admission(LOOPBACK, TokenBook(Gatehouse()._read), proxies=["proxy.example.com"])


@told
async def test_who_has_no_token_is_counted_by_address(server: Gatehouse) -> None:
    server.open(EVERYWHERE, limits=RateLimits(reads_per_second=1, reads_at_once=2))
    for _ in range(2):
        assert (await server.rejected(client="2001:db8::1")).status == 401
    assert (await server.rejected(client="2001:db8::ffff")).status == 429, "the same network"
    assert (await server.rejected(client="2001:db8:0:1::1")).status == 401
    assert (await server.admitted("GET", PUBLIC, client="10.0.0.9")).name == ""


# -- the store is away -------------------------------------------------------------------------------------------------


@pytest.mark.spec("U10", "store away")
@told
async def test_while_the_store_is_away_who_was_known_may_look_and_nobody_may_change(server: Gatehouse) -> None:
    server.open(EVERYWHERE)
    await server.token("anna")
    await server.token("late")
    cookie = {"Cookie": await server.cookie("anna")}
    csrf = (await server.admitted(headers=cookie)).csrf
    await server.admitted(headers=server.bearer("anna"))
    server.is_away = True
    server.pass_by(FRESH_FOR)
    for headers in (server.bearer("anna"), cookie):
        assert (await server.admitted(headers=headers)).name == "anna"
        away = await server.rejected("POST", Scope.OPERATE, {**headers, "X-CSRF-Token": csrf})
        assert (away.status, away.code, dict(away.headers)) == (503, "store_away", {"Retry-After": "5"})
    assert (await server.rejected(headers=server.bearer("late"))).status == 503
    signing_in = await server.door.sign_in(server.visit("POST", PUBLIC), server.texts["anna"])
    assert isinstance(signing_in, Rejection)
    assert signing_in.status == 503
    server.pass_by(STALE_FOR)
    assert (await server.rejected(headers=cookie)).status == 503
    server.is_away = False
    server.pass_by(SECOND)
    assert (await server.admitted(headers=cookie)).name == "anna"


@told
async def test_on_loopback_the_store_is_not_needed_to_know_who_asks(server: Gatehouse) -> None:
    server.open(LOOPBACK)
    server.is_away = True
    assert (await server.admitted()).name == ME
