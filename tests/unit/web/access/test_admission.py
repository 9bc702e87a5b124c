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
from itinerary.web.access import PUBLIC, Caller, Came, Door, RateLimits, Rejection
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
async def test_a_local_caller_may_operate_until_the_store_has_a_token(house: Gatehouse) -> None:
    house.open(LOOPBACK, local=None)
    assert (await house.admitted("GET", Scope.OPERATE)).scope is Scope.OPERATE
    refused = await house.rejected("POST", Scope.ADMIN, {"Idempotency-Key": "1"})
    assert (refused.code, "web_local" in refused.detail) == ("too_little", True)
    await house.token("ci")
    house.pass_by(FRESH_FOR)
    assert (await house.rejected()).code == "no_token"
    await house.revoke("ci")
    house.pass_by(FRESH_FOR)
    assert (await house.admitted()).scope is Scope.OPERATE


@pytest.mark.spec("Q2", "local")
@told
async def test_an_expired_token_does_not_let_local_callers_in_again(house: Gatehouse) -> None:
    house.open(LOOPBACK, local=None)
    await house.token("ci", expires="1h")
    house.pass_by(2 * HOUR)
    assert (await house.rejected()).code == "no_token"


@pytest.mark.spec("Q2", "local")
@told
async def test_while_the_store_does_not_answer_local_callers_keep_what_they_had(house: Gatehouse) -> None:
    house.open(LOOPBACK, local=None)
    house.is_away = True
    assert (await house.rejected()).code == "store_away", "nothing is known yet"
    house.is_away = False
    house.pass_by(FRESH_FOR)
    assert (await house.admitted()).scope is Scope.OPERATE
    house.is_away = True
    house.pass_by(FRESH_FOR)
    assert (await house.admitted()).scope is Scope.OPERATE
    house.pass_by(STALE_FOR)
    assert (await house.rejected()).code == "store_away"


@pytest.mark.spec("Q2", "local")
@told
async def test_the_setting_says_what_a_local_caller_may_do_with_tokens_or_without(house: Gatehouse) -> None:
    await house.token("ci")
    for local, scope in ((LocalScope.READ, Scope.READ), (LocalScope.OPERATE, Scope.OPERATE)):
        house.open(LOOPBACK, local=local)
        assert (await house.admitted()).scope is scope
    house.open(LOOPBACK, local=LocalScope.NONE)
    assert (await house.rejected()).code == "no_token"


@pytest.mark.spec("Q2", "local")
@told
async def test_another_user_of_this_machine_is_not_local(house: Gatehouse) -> None:
    house.user = 65_534
    refused = await house.rejected()
    assert (refused.code, "'nobody'" in refused.detail) == ("other_user", True)
    house.user = None
    assert (await house.rejected()).code == "other_user", "a connection whose user is not known"
    house.user = 0
    assert (await house.admitted()).name == "root"


@pytest.mark.spec("Q2", "local")
@told
async def test_on_loopback_who_asks_without_a_token_is_local_and_may_do_everything(house: Gatehouse) -> None:
    caller = await house.admitted("GET", Scope.ADMIN)
    assert (caller.name, caller.scope, caller.came, caller.headers) == (ME, Scope.ADMIN, Came.LOOPBACK, ())
    assert caller.may(Scope.ADMIN)
    change = await house.admitted("POST", Scope.ADMIN, {**PAGE, "X-CSRF-Token": caller.csrf})
    assert change == caller


@pytest.mark.spec("Q2", "cross-site")
@told
async def test_a_form_brings_its_token_in_a_field_which_is_read_last_and_only_if_needed(house: Gatehouse) -> None:
    caller = await house.admitted()
    read: list[str] = []

    async def good() -> str:
        read.append("body")
        return caller.csrf

    assert await house.ask("POST", Scope.ADMIN, PAGE, form_token=good) == caller
    assert read == ["body"]
    for refused in (
        await house.rejected("POST", None, PAGE, form_token=good),
        await house.rejected("POST", Scope.ADMIN, {**PAGE, "Origin": "http://evil.example"}, form_token=good),
        await house.rejected("POST", Scope.ADMIN, {"Host": "evil.example"}, form_token=good),
        await house.rejected("POST", Scope.ADMIN, {"Authorization": "Bearer x"}, form_token=good),
    ):
        assert refused.status in {401, 403, 421}
    assert read == ["body"], "no body is read of who is turned away anyhow"
    assert (await house.rejected("POST", Scope.ADMIN, PAGE, form_token=lambda: field(None))).code == "unproven"
    assert (await house.rejected("POST", Scope.ADMIN, PAGE, form_token=lambda: field("x"))).code == "unproven"


@told
async def test_a_program_on_this_machine_needs_no_form_token_if_no_page_can_have_sent_it(house: Gatehouse) -> None:
    for headers in ({"Content-Type": "application/json; charset=utf-8"}, {"Idempotency-Key": "7"}):
        assert (await house.admitted("POST", Scope.ADMIN, headers)).name == ME
        for mark in ({"Cookie": "theme=dark"}, {"Referer": "http://127.0.0.1:8080/"}, {"Sec-Fetch-Site": "none"}):
            assert (await house.rejected("POST", Scope.ADMIN, {**headers, **mark})).code == "unproven"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        assert (await house.rejected("POST", Scope.ADMIN, {"Content-Type": kind})).code == "unproven"


@told
async def test_what_a_proxy_has_passed_on_is_not_local(house: Gatehouse) -> None:
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
        assert (await house.rejected(headers={header: "10.0.0.7"})).code == "proxied"
    await house.token("ci")
    assert (await house.admitted(headers={"X-Forwarded-For": "10.0.0.7", **house.bearer("ci")})).name == "ci"


@told
async def test_who_asks_by_a_further_name_is_not_local_since_a_proxy_may_be_in_front(house: Gatehouse) -> None:
    house.open(LOOPBACK, names=["jobs.example.com"])
    for spelled in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080"):
        assert (await house.rejected(headers={"Host": spelled})).code == "wrong_host"
    assert (await house.rejected(headers={"Host": "jobs.example.com"})).code == "proxied"
    await house.token("ci")
    assert (await house.admitted(headers={"Host": "jobs.example.com", **house.bearer("ci")})).name == "ci"
    house.open(LOOPBACK, names=["localhost", "127.0.0.1"])
    assert (await house.rejected()).code == "proxied", "so that nobody is local"


@told
async def test_a_password_that_a_proxy_asks_for_is_no_hindrance_to_a_session_and_makes_nobody_local(
    house: Gatehouse,
) -> None:
    await house.token("anna")
    basic = {"Authorization": "Basic cm9vdDpyb290"}
    assert (await house.admitted(headers={"Cookie": await house.cookie("anna"), **basic})).name == "anna"
    for _ in range(20):
        assert (await house.rejected(headers=basic)).code == "wrong_token", "and nobody is slowed down by it"


@told
async def test_an_address_that_is_not_this_machines_is_not_local_even_on_loopback(house: Gatehouse) -> None:
    for client in ("192.168.1.7", "10.0.0.1", "2001:db8::1"):
        assert (await house.rejected(client=client)).code == "no_token"
    for here in ("127.0.0.1", "127.8.8.8", "::1", "testclient", None):
        assert (await house.admitted(client=here)).name == ME


@told
async def test_a_token_that_is_given_on_loopback_counts_and_one_that_is_wrong_does_not_become_local(
    house: Gatehouse,
) -> None:
    await house.token("reader", Scope.READ)
    assert (await house.admitted(headers=house.bearer("reader"))).name == "reader"
    assert (await house.rejected("POST", Scope.OPERATE, house.bearer("reader"))).code == "too_little"
    await house.revoke("reader")
    house.pass_by(FRESH_FOR)
    assert (await house.rejected(headers=house.bearer("reader"))).code == "wrong_token"


@pytest.mark.spec("Q7", "canary")
def test_no_token_and_no_cookie_is_in_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @told
    async def story(house: Gatehouse) -> None:
        asyncio.get_running_loop().set_debug(True)
        house.open(EVERYWHERE)
        text = await house.token("ci")
        cookie = await house.cookie("ci")
        for headers in ({"Authorization": f"Bearer {text}"}, {"Cookie": cookie}, {"Authorization": f"Bearer {text}0"}):
            for method, needs in (("GET", Scope.READ), ("POST", Scope.ADMIN), ("GET", None)):
                await house.ask(method, needs, headers)
        await house.door.sign_in(house.visit("POST", PUBLIC), f"{text}0")
        house.is_away = True
        house.pass_by(FRESH_FOR)
        await house.ask(headers=house.bearer("ci"))
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
    async def story(house: Gatehouse) -> None:
        house.open(EVERYWHERE)
        await house.token("ci", has)
        answer = await house.ask("POST", needs, house.bearer("ci"), client="10.0.0.7")
        if list(Scope).index(has) >= list(Scope).index(needs):
            assert answer == Caller("ci", has, Came.BEARER, client="10.0.0.7")
        else:
            assert isinstance(answer, Rejection)
            assert (answer.status, answer.code) == (403, "too_little")
            assert answer.detail == f"This needs scope {needs}, and 'ci' has scope {has}."
            assert dict(answer.headers)["WWW-Authenticate"].endswith(f'error="insufficient_scope", scope="{needs}"')

    story()


@pytest.mark.spec("Q1", "elsewhere")
@told
async def test_elsewhere_nobody_is_local_not_even_who_connects_from_this_machine(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("ci")
    for client in ("10.0.0.7", "127.0.0.1", "::1"):
        rejection = await house.rejected(client=client)
        assert (rejection.status, rejection.code) == (401, "no_token")
        assert dict(rejection.headers) == {"WWW-Authenticate": 'Bearer realm="itinerary"'}
        assert (await house.admitted(client=client, headers=house.bearer("ci"))).name == "ci"


@pytest.mark.spec("Q1", "revoked")
@told
async def test_a_revoked_token_and_its_sessions_are_refused_after_a_second(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("ci")
    cookie = {"Cookie": await house.cookie("ci")}
    for headers in (house.bearer("ci"), cookie):
        await house.admitted(headers=headers)
    await house.revoke("ci")
    house.pass_by(FRESH_FOR)
    assert (await house.rejected(headers=house.bearer("ci"))).code == "wrong_token"
    over = await house.rejected(headers=cookie)
    assert (over.status, over.code) == (401, "session_over")
    assert "Max-Age=0" in dict(over.headers)["Set-Cookie"]


@told
async def test_a_token_that_expires_is_refused_at_that_moment(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("ci", expires="10s")
    cookie = {"Cookie": await house.cookie("ci")}
    house.pass_by(10 * SECOND - 1)
    await house.admitted(headers=house.bearer("ci"))
    await house.admitted(headers=cookie)
    house.pass_by(1)
    assert (await house.rejected(headers=house.bearer("ci"))).status == 401
    assert (await house.rejected(headers=cookie)).status == 401


@pytest.mark.spec("Q6")
@told
async def test_a_route_that_does_not_say_what_it_needs_is_open_to_nobody(house: Gatehouse) -> None:
    await house.token("root", Scope.ADMIN)
    for headers in ({}, house.bearer("root"), {"Cookie": await house.cookie("root")}):
        rejection = await house.rejected("GET", None, headers)
        assert (rejection.status, rejection.code) == (403, "no_rule")


@told
async def test_a_public_route_is_open_without_a_name_but_not_to_pages_of_other_sites(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    caller = await house.admitted("GET", PUBLIC, client="10.0.0.7")
    assert (caller.name, caller.scope, caller.came) == ("", None, Came.PUBLIC)
    assert not caller.may(Scope.READ)
    proven = {"X-CSRF-Token": caller.csrf}
    assert await house.ask("POST", PUBLIC, proven, client="10.0.0.7") == caller
    assert (await house.rejected("POST", PUBLIC)).code == "unproven"
    assert (await house.rejected("POST", PUBLIC, {**proven, "Origin": "http://evil.example"})).code == "foreign"


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q2", "token's name")
@told
async def test_a_session_has_the_name_and_scope_of_its_token_and_lasts_twelve_hours(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("anna", Scope.OPERATE)
    cookie = {"Cookie": f"theme=dark; {await house.cookie('anna')}; other=1"}
    caller = await house.admitted(headers=cookie)
    assert (caller.name, caller.scope, caller.came) == ("anna", Scope.OPERATE, Came.SESSION)
    assert SESSION_FOR == 12 * 3_600 * SECOND
    house.pass_by(SESSION_FOR - 1)
    await house.admitted(headers=cookie)
    house.pass_by(1)
    assert (await house.rejected(headers=cookie)).code == "session_over"


@pytest.mark.spec("Q2", "cross-site")
@told
async def test_a_change_in_a_session_needs_the_token_of_a_page_of_that_session(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("anna")
    first, second = [{"Cookie": await house.cookie("anna")} for _ in range(2)]
    mine, other = [await house.admitted(headers=headers) for headers in (first, second)]
    nobody = await house.admitted("GET", PUBLIC)
    assert len({mine.csrf, other.csrf, nobody.csrf}) == 3
    assert await house.ask("POST", Scope.ADMIN, {**first, "X-CSRF-Token": mine.csrf}) == mine
    for proof in ({}, {"X-CSRF-Token": other.csrf}, {"X-CSRF-Token": nobody.csrf}, {"X-CSRF-Token": ""}):
        for more in ({}, {"Content-Type": "application/json", "Idempotency-Key": "7"}):
            assert (await house.rejected("POST", Scope.ADMIN, {**first, **proof, **more})).code == "unproven"


@told
async def test_the_cookie_is_for_our_pages_only(house: Gatehouse) -> None:
    await house.token("anna")
    plain = await house.door.sign_in(house.visit("POST", PUBLIC), house.texts["anna"])
    assert isinstance(plain, Caller)
    name, _, rules = plain.headers[0][1].partition("=")
    assert name == "itinerary_session_8080"
    assert rules.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]
    secure = await house.door.sign_in(house.visit("POST", PUBLIC, scheme="https"), house.texts["anna"])
    assert isinstance(secure, Caller)
    name, _, rules = secure.headers[0][1].partition("=")
    assert name == "__Host-itinerary_session"
    assert rules.split("; ")[1:] == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200", "Secure"]
    ((header, gone),) = house.door.sign_out(house.visit("POST", Scope.READ))
    assert header == "Set-Cookie"
    assert gone.startswith("itinerary_session_8080=; ")
    assert "Max-Age=0" in gone


@told
async def test_a_restart_ends_sessions_unless_the_server_is_given_its_key(house: Gatehouse) -> None:
    await house.token("anna")
    house.open(EVERYWHERE)
    cookie = {"Cookie": await house.cookie("anna")}
    house.open(EVERYWHERE)
    assert (await house.rejected(headers=cookie)).code == "session_over"
    house.open(EVERYWHERE, key=b"k" * 32)
    cookie = {"Cookie": await house.cookie("anna")}
    house.open(EVERYWHERE, key=b"k" * 32)
    assert (await house.admitted(headers=cookie)).name == "anna"
    with pytest.raises(ConfigError, match="31 bytes; give at least 32"):
        house.open(EVERYWHERE, key=b"k" * 31)


@told
async def test_on_loopback_a_session_that_is_over_is_no_hindrance(house: Gatehouse) -> None:
    await house.token("anna", Scope.READ)
    cookie = {"Cookie": await house.cookie("anna")}
    assert (await house.admitted(headers=cookie)).name == "anna"
    house.pass_by(SESSION_FOR)
    assert (await house.admitted(headers=cookie)).name == ME


@told
async def test_a_session_is_not_that_of_another_token_with_the_same_name(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("anna")
    cookie = {"Cookie": await house.cookie("anna")}
    await house.revoke("anna")
    house.pass_by(91 * 24 * 3_600 * SECOND)
    await house.token("anna")
    fresh = {"Cookie": await house.cookie("anna")}
    assert (await house.rejected(headers=cookie)).code == "session_over"
    assert (await house.admitted(headers=fresh)).name == "anna"


@told
async def test_wrong_tokens_at_the_sign_in_are_slowed_down_and_a_right_one_passes(
    house: Gatehouse,
) -> None:
    house.open(EVERYWHERE)
    await house.token("anna")
    post = house.visit("POST", PUBLIC, client="10.0.0.7")
    for _ in range(10):
        wrong = await house.door.sign_in(post, "itn_guess")
        assert isinstance(wrong, Rejection)
        assert (wrong.status, wrong.code) == (401, "wrong_token")
    slowed = await house.door.sign_in(post, "itn_guess")
    assert isinstance(slowed, Rejection)
    assert (slowed.status, dict(slowed.headers)["Retry-After"]) == (429, "5")
    elsewhere = house.visit("POST", PUBLIC, client="10.0.0.8")
    assert isinstance(await house.door.sign_in(elsewhere, house.texts["anna"]), Caller)
    assert isinstance(await house.door.sign_in(post, f" {house.texts['anna']}\n"), Caller)


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q4", "rate")
@told
async def test_each_token_has_its_own_rate_and_looking_does_not_use_up_changing(house: Gatehouse) -> None:
    house.open(
        EVERYWHERE, limits=RateLimits(reads_per_second=2, reads_at_once=3, changes_per_second=1, changes_at_once=1)
    )
    for name in ("a", "b"):
        await house.token(name)
    for _ in range(3):
        await house.admitted(headers=house.bearer("a"))
    slowed = await house.rejected(headers=house.bearer("a"))
    assert (slowed.status, slowed.code, dict(slowed.headers)) == (429, "too_many", {"Retry-After": "1"})
    assert slowed.detail == "There are too many requests at once. Try again in 1 s."
    await house.admitted("POST", Scope.ADMIN, house.bearer("a"))
    assert (await house.rejected("POST", Scope.ADMIN, house.bearer("a"))).status == 429
    await house.admitted(headers=house.bearer("b"))
    house.pass_by(SECOND // 2)
    await house.admitted(headers=house.bearer("a"))
    assert (await house.rejected(headers=house.bearer("a"))).status == 429


@pytest.mark.spec("Q4", "rate")
@told
async def test_a_wrong_token_never_locks_out_a_right_one_of_the_same_address(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("good")
    await house.token("unused")
    await house.admitted(headers=house.bearer("good"), client="10.0.0.7")
    for _ in range(10):
        assert (await house.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 401
    assert (await house.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 429
    await house.admitted(headers=house.bearer("good"), client="10.0.0.7")
    await house.admitted(headers=house.bearer("unused"), client="10.0.0.7")
    await house.token("new")
    house.pass_by(FRESH_FOR)
    assert (await house.rejected(headers={"Authorization": "Bearer itn_x"}, client="10.0.0.7")).status == 429
    await house.admitted(headers=house.bearer("new"), client="10.0.0.7")
    await house.revoke("unused")
    house.pass_by(FRESH_FOR)
    assert (await house.rejected(headers=house.bearer("unused"), client="10.0.0.7")).status == 429


@pytest.mark.spec("Q4", "rate")
@told
async def test_sign_ins_are_not_kept_out_by_other_requests_of_the_same_address(house: Gatehouse) -> None:
    house.open(EVERYWHERE, limits=RateLimits(reads_per_second=1, reads_at_once=1, changes_at_once=1))
    page = await house.admitted("GET", PUBLIC, client="10.0.0.7")
    for _ in range(20):
        proven = {"X-CSRF-Token": page.csrf}
        assert isinstance(await house.ask("POST", PUBLIC, proven, client="10.0.0.7"), Caller)


PROXIED = {"Host": "jobs.example.com"}


@pytest.mark.spec("Q4", "behind a proxy")
@told
async def test_behind_a_trusted_proxy_the_address_of_the_client_counts(house: Gatehouse) -> None:
    house.open(
        LOOPBACK,
        names=["jobs.example.com"],
        proxies=["127.0.0.1", "10.1.0.0/16"],
        limits=RateLimits(reads_per_second=1, reads_at_once=1),
    )

    async def asks(forwarded: str, header: str = "X-Forwarded-For", **values: Any) -> tuple[int, str]:
        answer = await house.rejected(headers={**PROXIED, header: forwarded}, **values)
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
    assert (await house.rejected(headers=both)).client == "127.0.0.1", "the proxy wrote only one of them"


@pytest.mark.spec("Q1", "behind a proxy")
@told
async def test_no_caller_is_local_where_a_proxy_is_trusted(house: Gatehouse) -> None:
    house.open(LOOPBACK, proxies=["127.0.0.1"])
    assert (await house.rejected()).code == "proxied"


def test_a_proxy_that_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"web_proxies: 'proxy.example.com' is no address and no network; write"):
        Door(LOOPBACK, TokenBook(Gatehouse()._read), proxies=["proxy.example.com"])


@told
async def test_who_has_no_token_is_counted_by_address(house: Gatehouse) -> None:
    house.open(EVERYWHERE, limits=RateLimits(reads_per_second=1, reads_at_once=2))
    for _ in range(2):
        assert (await house.rejected(client="2001:db8::1")).status == 401
    assert (await house.rejected(client="2001:db8::ffff")).status == 429, "the same network"
    assert (await house.rejected(client="2001:db8:0:1::1")).status == 401
    assert (await house.admitted("GET", PUBLIC, client="10.0.0.9")).name == ""


# -- the store is away -------------------------------------------------------------------------------------------------


@pytest.mark.spec("U10", "store away")
@told
async def test_while_the_store_is_away_who_was_known_may_look_and_nobody_may_change(house: Gatehouse) -> None:
    house.open(EVERYWHERE)
    await house.token("anna")
    await house.token("late")
    cookie = {"Cookie": await house.cookie("anna")}
    csrf = (await house.admitted(headers=cookie)).csrf
    await house.admitted(headers=house.bearer("anna"))
    house.is_away = True
    house.pass_by(FRESH_FOR)
    for headers in (house.bearer("anna"), cookie):
        assert (await house.admitted(headers=headers)).name == "anna"
        away = await house.rejected("POST", Scope.OPERATE, {**headers, "X-CSRF-Token": csrf})
        assert (away.status, away.code, dict(away.headers)) == (503, "store_away", {"Retry-After": "5"})
    assert (await house.rejected(headers=house.bearer("late"))).status == 503
    signing_in = await house.door.sign_in(house.visit("POST", PUBLIC), house.texts["anna"])
    assert isinstance(signing_in, Rejection)
    assert signing_in.status == 503
    house.pass_by(STALE_FOR)
    assert (await house.rejected(headers=cookie)).status == 503
    house.is_away = False
    house.pass_by(SECOND)
    assert (await house.admitted(headers=cookie)).name == "anna"


@told
async def test_on_loopback_the_store_is_not_needed_to_know_who_asks(house: Gatehouse) -> None:
    house.open(LOOPBACK)
    house.is_away = True
    assert (await house.admitted()).name == ME
