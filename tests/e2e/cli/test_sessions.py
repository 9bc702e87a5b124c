"""Sessions and tokens of a real node: what ends them, when, and how a browser keeps them (Q1, Q2)."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from itinerary.model.scopes import Scope
from itinerary.operations.tokens import FRESH_FOR
from itinerary.schedules.durations import SECOND
from itinerary.web.stream_admission import RECHECK_INTERVAL
from tests.e2e.access.nodes import Answer, ask, live, make_token, node, rest_of, revoke_token

HTTPS = 'web_names = ["https://schedules.example.com"]\n'
NAME = "schedules.example.com"
FORM = "application/x-www-form-urlencoded"
STREAMS = ("/", "/jobs", "/api/v1/events")


def proof(page: str) -> str:
    found = re.search(r'name="_csrf" value="([^"]*)"', page)
    assert found is not None, page
    return found[1]


def sign_in(address: str, text: str, **headers: str) -> Answer:
    """Sign in as a browser does. The answer has the cookie."""
    login = ask(address, "/login", {"Accept": "text/html", **headers})
    fields = {"_csrf": proof(login.body), "next": "/", "token": text}
    return ask(address, "/login", {"Accept": "text/html", "Content-Type": FORM, **headers}, "POST", urlencode(fields))


def cookie_of(answer: Answer) -> str:
    return {name.lower(): value for name, value in answer.headers.items()}["set-cookie"].partition(";")[0]


@pytest.mark.spec("Q1", "revoked")
def test_a_revoked_token_ends_its_live_pages_and_streams_within_two_seconds(tmp_path: Path) -> None:
    assert RECHECK_INTERVAL + FRESH_FOR / SECOND <= 2.0, "the longest that a stream is behind"
    text, kept = make_token(tmp_path, scope=Scope.READ), make_token(tmp_path, "kept", Scope.READ)
    with node(tmp_path) as address:
        session = {"Cookie": cookie_of(sign_in(address, text))}
        for headers in ({"Authorization": f"Bearer {text}"}, session):
            for path in STREAMS:
                assert ask(address, path.replace("events", "jobs"), headers).status == 200
        with (
            live(address, "/", {"Authorization": f"Bearer {text}"}) as page,
            live(address, "/jobs", session) as in_session,
            live(address, "/api/v1/events", {"Authorization": f"Bearer {text}"}) as stream,
            live(address, "/api/v1/events", {"Authorization": f"Bearer {kept}"}) as others,
        ):
            revoke_token(tmp_path)
            for followed in (page, in_session, stream):
                told = rest_of(followed)
                assert told.rstrip().splitlines()[-2] == "event: over", told
            assert others.readline(), "another token's stream goes on: the next line is a beat, or an event"


@pytest.mark.spec("Q1", "sign out")
def test_a_user_who_signs_out_ends_the_session_at_the_server_and_its_live_pages(tmp_path: Path) -> None:
    text = make_token(tmp_path)
    with node(tmp_path) as address:
        cookie, other = cookie_of(sign_in(address, text)), cookie_of(sign_in(address, text))
        page = ask(address, "/", {"Cookie": cookie, "Accept": "text/html"})
        assert page.status == 200
        with live(address, "/", {"Cookie": cookie}) as followed:
            form = {"Cookie": cookie, "Content-Type": FORM, "Accept": "text/html"}
            out = ask(address, "/logout", form, "POST", urlencode({"_csrf": proof(page.body)}))
            assert out.status == 303
            assert "event: over" in rest_of(followed)
        for path in ("/", "/api/v1/jobs"):
            assert ask(address, path, {"Cookie": cookie}).status == 401, "a copy of the cookie is worth nothing"
        assert ask(address, "/", {"Cookie": other}).status == 200, "another session of the same token goes on"


@pytest.mark.spec("Q2", "https")
def test_a_public_name_with_https_makes_cookies_secure_and_has_browsers_stay_with_https(tmp_path: Path) -> None:
    text = make_token(tmp_path)
    with node(tmp_path, HTTPS) as address:
        done = sign_in(address, text, Host=NAME, Origin=f"https://{NAME}")
        assert done.status == 303
        cookie = {name.lower(): value for name, value in done.headers.items()}["set-cookie"]
        name, *rules = cookie.split("; ")
        assert name.startswith("__Host-itinerary_session=")
        assert {"Secure", "Path=/", "HttpOnly", "SameSite=Strict"} <= set(rules)
        assert not [rule for rule in rules if rule.startswith("Domain")]
        assert ask(address, "/", {"Host": NAME, "Cookie": cookie_of(done)}).status == 200
        for path in ("/", "/login", "/nowhere", "/api/v1/jobs", "/static/itinerary.css"):
            headers = {key.lower(): value for key, value in ask(address, path, {"Host": NAME}).headers.items()}
            assert headers["strict-transport-security"] == "max-age=31536000", path
        plain = ask(address, "/login", {"Host": NAME})
        fields = urlencode({"_csrf": proof(plain.body), "next": "/", "token": text})
        foreign = {"Host": NAME, "Content-Type": FORM, "Origin": f"http://{NAME}"}
        assert ask(address, "/login", foreign, "POST", fields).status == 403, "a page without encryption is not ours"


@pytest.mark.spec("Q2", "https")
def test_a_public_name_without_a_scheme_says_nothing_of_https(tmp_path: Path) -> None:
    text = make_token(tmp_path)
    with node(tmp_path, f'web_names = ["{NAME}"]\n') as address:
        done = sign_in(address, text, Host=NAME)
        assert done.status == 303
        assert "Secure" not in done.headers["set-cookie"]
        assert "strict-transport-security" not in {name.lower() for name in done.headers}
        assert ask(address, "/login", {"Host": f"https://{NAME}"}).status in {400, 421}
