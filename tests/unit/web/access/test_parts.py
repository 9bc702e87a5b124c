"""The questions of the door, each by itself: names of a server, origins, buckets, cookies, where to listen, headers."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from itinerary.connections.clients import client_key
from itinerary.errors import ConfigError, NodeError
from itinerary.model.rows import TokenRow
from itinerary.model.scopes import Scope
from itinerary.observe.listen_address import ListenAt, authority
from itinerary.operations.tokens import ValidToken
from itinerary.schedules.durations import SECOND
from itinerary.web.access import RateLimits, check_listening, security_headers
from itinerary.web.access import sessions as session_parts
from itinerary.web.access.headers import BYTES_MAX, COUNT_MAX, RequestHeaders, read_heads
from itinerary.web.access.hosts import Hosts
from itinerary.web.access.origins import foreign_origin
from itinerary.web.access.rate_limits import Buckets, Slowdown
from itinerary.web.access.sessions import SESSION_FOR, Sessions

LOOPBACK = ListenAt("127.0.0.1", 8080)


# -- where to listen ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q1", "loopback")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    check_listening(ListenAt(host, 8080), has_tokens=False)


@pytest.mark.spec("Q1", "elsewhere")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "jobs.example.com", "localhost.example.com"])  # noqa: S104 - not listened on
def test_elsewhere_is_refused_without_a_token_and_the_error_says_how_to_make_one(host: str) -> None:
    with pytest.raises(NodeError, match="itinerary token create NAME --scope admin"):
        check_listening(ListenAt(host, 8080), has_tokens=False)
    check_listening(ListenAt(host, 8080), has_tokens=True)


# -- hosts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("localhost:8080", ("localhost", 8080)),
        ("LocalHost", ("localhost", None)),
        ("[::1]:80", ("::1", 80)),
        ("[0:0:0:0:0:0:0:1]", ("::1", None)),
        ("jobs.example.com:65535", ("jobs.example.com", 65_535)),
        ("a", ("a", None)),
        ("jobs.example.com:65536", None),
        ("jobs.example.com:", None),
        ("jobs.example.com:80:80", None),
        ("::1", None),
        ("[localhost]", None),
        ("[::1", None),
        ("user@localhost", None),
        ("localhost/path", None),
        ("local host", None),
        ("localhost.", None),
        (".localhost", None),
        ("lοcalhost", None),
        ("a" * 254, None),
        ("", None),
    ],
)
def test_an_authority_is_a_host_in_one_spelling_and_a_port(text: str, read: tuple[str, int | None] | None) -> None:
    assert authority(text) == read


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:8080"])
def test_on_loopback_it_has_the_names_of_this_machine_with_its_port(host: str) -> None:
    assert Hosts(LOOPBACK).has(host, "http")


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "localhost",
        "localhost:80",
        "127.0.0.1:8081",
        "evil.example:8080",
        "localhost.evil.example:8080",
        "127.0.0.1.nip.io:8080",
        "0.0.0.0:8080",
        "localhost:8080, evil.example",
    ],
)
def test_on_loopback_any_other_name_or_port_is_not_its(host: str | None) -> None:
    assert not Hosts(LOOPBACK).has(host, "http")


def test_port_80_and_443_need_not_be_written() -> None:
    assert Hosts(ListenAt("localhost", 80)).has("localhost", "http")
    assert Hosts(ListenAt("localhost", 443)).has("localhost", "https")
    assert not Hosts(ListenAt("localhost", 443)).has("localhost", "http")


def test_elsewhere_it_has_its_own_name_all_addresses_have_any_and_given_ones_come_on_top() -> None:
    one = ListenAt("192.168.1.5", 8080)
    assert Hosts(one).has("192.168.1.5:8080", "http")
    assert not Hosts(one).has("localhost:8080", "http")
    assert not Hosts(one).has("jobs.example.com", "http")
    named = Hosts(one, ["jobs.example.com", "other.example.com:8443"])
    assert named.has("jobs.example.com", "http")
    assert named.has("JOBS.example.com:9999", "http")
    assert named.has("other.example.com:8443", "http")
    assert not named.has("other.example.com:8444", "http")
    assert named.has("192.168.1.5:8080", "http")
    everywhere = ListenAt("0.0.0.0", 8080)  # noqa: S104 - not listened on
    assert Hosts(everywhere).has("whatever.example.com", "http")
    assert not Hosts(everywhere).has("what ever", "http")
    named = Hosts(everywhere, ["jobs.example.com"])
    assert not named.has("whatever.example.com", "http")
    assert not named.has("whatever.example.com:8080", "http")
    for probe in ("10.1.2.3:8080", "[2001:db8::1]:8080"):
        assert named.has(probe, "http"), "no page can have made that lead here"
    for spelled in ("localhost:8080", "127.0.0.1:8080", "[::1]:8080"):
        assert not named.has(spelled, "http"), "a proxy on this machine may pass on what any client sends"
    assert not named.has("10.1.2.3:8081", "http")
    for wrong in (
        "ftp://jobs.example.com",
        "https://jobs.example.com/",
        "https://",
        "https://a b",
        "://jobs",
        "a://b://c",
    ):
        with pytest.raises(ConfigError, match=r"write https://jobs\.example\.com, or the name alone"):
            Hosts(everywhere, [wrong])


def test_a_further_name_may_carry_the_scheme_by_which_browsers_reach_it() -> None:
    hosts = Hosts(LOOPBACK, ["https://jobs.example.com", "http://plain.example.com:8080", "other.example.com"])
    for host, public, pages in (
        ("jobs.example.com", "https", {"https"}),
        ("JOBS.example.com:8443", "https", {"https"}),
        ("plain.example.com:8080", "http", {"http"}),
        ("other.example.com", "http", {"http", "https"}),
        ("evil.example.com", "http", {"http"}),
    ):
        assert hosts.has(host, "http") == (host != "evil.example.com")
        assert (hosts.public_scheme(host, "http"), set(hosts.schemes(host, "http"))) == (public, pages), host
    assert not hosts.has("plain.example.com:8081", "http")
    assert hosts.public_scheme(None, "http") == "http"


# -- origins -----------------------------------------------------------------------------------------------------------


def heads(**values: str) -> RequestHeaders:
    return RequestHeaders(
        {"host": "127.0.0.1:8080", **{name.replace("_", "-"): value for name, value in values.items()}}
    )


@pytest.mark.spec("Q2", "cross-site")
@pytest.mark.parametrize(
    "said",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:3000"},
        {"origin": "http://127.0.0.1"},
        {"origin": "https://127.0.0.1:8080"},
        {"origin": "http://localhost:8080"},
        {"origin": "null"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "null", "sec_fetch_site": "same-site"},
        {"origin": "null", "sec_fetch_site": "none"},
        {"origin": ""},
        {"origin": "127.0.0.1:8080"},
        {"origin": "http://127.0.0.1:8080.evil.example"},
        {"origin": "http://127.0.0.1:8080/"},
        {"origin": "http://127.0.0.1:8080, http://evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "nonsense"},
        {"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1:8080"},
        {"sec_fetch_site": "same-origin", "origin": "http://evil.example"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"},
    ],
)
def test_a_change_that_a_page_of_another_site_makes_is_foreign(said: dict[str, str]) -> None:
    assert foreign_origin("POST", heads(**said), "http", Hosts(LOOPBACK)) is not None


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"origin": "http://127.0.0.1:8080"},
        {"origin": "http://127.0.0.1:8080", "sec_fetch_site": "same-origin"},
        {"origin": "null", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
    ],
)
def test_a_change_of_our_own_page_or_of_a_program_is_not(said: dict[str, str]) -> None:
    assert foreign_origin("POST", heads(**said), "http", Hosts(LOOPBACK)) is None


def test_a_link_from_elsewhere_may_be_followed_and_a_frame_a_script_or_a_picture_not() -> None:
    def look(**said: str) -> str | None:
        return foreign_origin("GET", heads(sec_fetch_site="cross-site", **said), "http", Hosts(LOOPBACK))

    assert look(sec_fetch_mode="navigate", sec_fetch_dest="document") is None
    assert look(sec_fetch_mode="navigate", sec_fetch_dest="iframe") == "cross-site"
    assert look(sec_fetch_mode="no-cors", sec_fetch_dest="image") == "cross-site"
    assert look(sec_fetch_mode="cors", sec_fetch_dest="empty") == "cross-site"
    assert look() == "cross-site"


def test_behind_a_proxy_that_speaks_https_the_page_of_a_given_name_is_ours() -> None:
    hosts = Hosts(LOOPBACK, ["jobs.example.com"])
    said = {"host": "jobs.example.com", "origin": "https://jobs.example.com"}
    assert foreign_origin("POST", RequestHeaders(said), "http", hosts) is None
    assert foreign_origin("POST", RequestHeaders({**said, "origin": "https://evil.example"}), "http", hosts) is not None
    assert (
        foreign_origin("POST", RequestHeaders({**said, "origin": "ftp://jobs.example.com"}), "http", hosts) is not None
    )
    hosts = Hosts(LOOPBACK, ["https://jobs.example.com"])
    assert foreign_origin("POST", RequestHeaders(said), "http", hosts) is None
    assert (
        foreign_origin("POST", RequestHeaders({**said, "origin": "http://jobs.example.com"}), "http", hosts) is not None
    )


# -- headers -----------------------------------------------------------------------------------------------------------


def test_headers_are_read_in_any_case_and_cookies_put_together() -> None:
    read = read_heads(
        [(b"HOST", b" a "), (b"Cookie", b"x=1"), (b"cookie", b"y=2;x=3"), (b"Accept", b"a"), (b"accept", b"b")]
    )
    assert isinstance(read, RequestHeaders)
    assert (read.get("host"), read.get("accept"), read.get("origin")) == ("a", "a, b", None)
    assert (read.cookies("x"), read.cookies("y"), read.cookies("z")) == (["1", "3"], ["2"], [])


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=200)), max_size=COUNT_MAX + 5))
def test_whatever_the_headers_are_they_are_read_or_rejected(pairs: list[tuple[bytes, bytes]]) -> None:
    read = read_heads(pairs)
    if isinstance(read, RequestHeaders):
        assert len(pairs) <= COUNT_MAX
        assert sum(len(name) + len(value) for name, value in pairs) <= BYTES_MAX
    else:
        assert read.status in {400, 431}
        assert read.detail.isprintable()


# -- buckets -----------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that a test moves."""

    now = 0

    def __call__(self) -> int:
        return self.now


def test_a_bucket_is_full_at_first_fills_up_at_its_rate_and_never_over() -> None:
    clock = Clock()
    buckets = Buckets(0.5, 3, clock)
    assert [buckets.take("a") for _ in range(5)] == [None, None, None, 2, 2]
    assert buckets.wait("a") == 2
    clock.now += 2 * SECOND
    assert (buckets.wait("a"), buckets.take("a"), buckets.take("a")) == (None, None, 2)
    clock.now += 3_600 * SECOND
    assert [buckets.take("a") for _ in range(4)] == [None, None, None, 2]


def test_who_keeps_knocking_at_an_empty_bucket_does_not_have_to_wait_longer() -> None:
    clock = Clock()
    buckets = Buckets(1, 1, clock)
    buckets.take("a")
    for _ in range(9):
        clock.now += SECOND // 10
        assert buckets.take("a") == 1
    clock.now += SECOND // 10
    assert buckets.take("a") is None


@pytest.mark.spec("Q4", "rate")
def test_buckets_are_bounded_and_the_one_not_used_for_longest_is_forgotten() -> None:
    buckets = Buckets(0.001, 1, Clock(), size=100)
    for number in range(1_000):
        assert buckets.take(f"client {number}") is None
        buckets.take("busy")
    assert len(buckets) == 100
    assert buckets.take("busy") is not None
    assert buckets.take("client 0") is None


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1:2:3", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        (None, "unknown"),
        ("testclient", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_client_is_an_address_or_a_network(address: str | None, key: str) -> None:
    assert client_key(address) == key


def test_a_rate_that_lets_nothing_pass_is_refused() -> None:
    with pytest.raises(ConfigError, match="reads_per_second 0"):
        RateLimits(reads_per_second=0)
    with pytest.raises(ConfigError, match="failures_at_once -1"):
        RateLimits(failures_at_once=-1)


@pytest.mark.spec("Q4", "rate")
def test_some_wait_for_their_refusal_and_further_ones_get_it_at_once() -> None:
    async def ask() -> None:
        slowdown = Slowdown(seconds=3_600, at_once=2)
        waiting = [asyncio.create_task(slowdown.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        await slowdown.wait()
        assert not any(task.done() for task in waiting)

    asyncio.run(ask())


@pytest.mark.spec("Q4", "rate")
def test_a_server_that_stops_ends_the_wait_for_a_refusal_so_that_it_is_sent() -> None:
    async def stop() -> None:
        slowdown = Slowdown(seconds=3_600, at_once=1)
        for _ in range(2):  # the place of the first is given back
            waiting = asyncio.create_task(slowdown.wait())
            await asyncio.sleep(0)
            assert not waiting.done()
            waiting.cancel()
            await waiting

    asyncio.run(stop())


# -- sessions ----------------------------------------------------------------------------------------------------------

NOW = 1_800_000_000 * SECOND
ROW = TokenRow("anna", "ab" * 32, Scope.READ, NOW, "root")


def test_a_signed_out_session_never_comes_back_however_many_are_signed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_parts, "ENDED_MAX", 3)
    sessions = Sessions(8080)
    values = [sessions.begin(ValidToken(ROW, NOW + number))[1] for number in range(10)]
    assert all(sessions.read(value) for value in values)
    for value in values[2:]:
        sessions.end(value)
        sessions.end(value)
    assert not any(sessions.read(value) for value in values[2:])
    assert not any(sessions.read(value) for value in values[:2]), "those that began before are ended with them"
    assert sessions.read(sessions.begin(ValidToken(ROW, NOW + 10))[1]) is not None


def test_a_session_is_read_back_as_it_was_begun_and_is_of_its_token_only() -> None:
    sessions = Sessions(8080)
    session, value = sessions.begin(ValidToken(ROW, NOW))
    assert sessions.read(value) == session
    assert session.is_of(ValidToken(ROW, NOW))
    assert not session.is_of(ValidToken(ROW, NOW + SESSION_FOR))
    assert not session.is_of(ValidToken(TokenRow("anna", "ac" * 32, Scope.READ, NOW, "root"), NOW))
    assert sessions.begin(ValidToken(ROW, NOW))[1] != value
    assert ROW.hash not in value


def test_a_cookie_that_was_changed_in_any_place_is_none() -> None:
    sessions = Sessions(8080)
    _, value = sessions.begin(ValidToken(ROW, NOW))
    signature = value.rindex(".")
    for place in range(len(value) - 1):  # the last character has bits that mean nothing, and is compared all the same
        changed = value[:place] + ("A" if value[place] != "A" else "B") + value[place + 1 :]
        assert sessions.read(changed) is None, place
    for wrong in ("", ".", "..", "v1..", value[:signature], value + "=", value + "x", "v1." + "A" * 5_000, "v1.é.é"):
        assert sessions.read(wrong) is None
    assert Sessions(8080).read(value) is None, "signed by another server"


# -- shielding ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("Q2", "content security policy")
def test_every_response_carries_a_strict_policy_and_is_kept_by_nobody() -> None:
    headers = dict(security_headers("http"))
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin", "or a browser does not say which site a form is of"
    assert headers["Cache-Control"] == "no-store"
    assert (headers["Cross-Origin-Opener-Policy"], headers["Cross-Origin-Resource-Policy"]) == ("same-origin",) * 2
    assert "camera=()" in headers["Permissions-Policy"]
    assert "Strict-Transport-Security" not in headers
    assert "Strict-Transport-Security" in dict(security_headers("https"))
