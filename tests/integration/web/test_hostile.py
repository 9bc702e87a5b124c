"""Hostile input over HTTP, against the real application: whatever is sent is refused or is text, and nothing breaks.

What concerns access (tokens, hosts, origins, sessions, limits) is held against the door, in its own tests. Here is the
rest: script in names, reasons, events, notices and fields; traversal; what is too large, of another type, or unknown.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from html import unescape
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest

from itinerary import Itinerary, every
from itinerary.model.ids import job_id
from itinerary.model.queries import EntriesQuery
from itinerary.records import RecordScheduler
from tests.integration.web.visiting import FORM, ORIGIN, Visitor, text_of, visiting

T = TypeVar("T")
SCRIPTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></textarea></script><script>alert(1)</script>",
    "<svg/onload=alert(1)>",
    "<!--<script>-->",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;script&gt;&#x27;",
)
NAME = "<script>alert('name')</script>/../\"&"
JOB = job_id(NAME)
TRIGGERED = job_id("triggered")


class Site:
    """One node and its application, for all tests of this module: they change nothing that another one looks at."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._stop = asyncio.Event()
        app = Itinerary(store="memory:", name="<b>here</b>")
        app.job(NAME, every("24h")).task(_work)
        app.job("triggered", every("24h")).task(_work)
        self.desk: RecordScheduler = app.records("<i>desk", partition_by="hotel", schedule_interval="24h")
        self.visitor = self._runner.run(self._open(app))

    async def _open(self, app: Itinerary) -> Visitor:
        opened: asyncio.Future[Visitor] = asyncio.get_running_loop().create_future()

        async def stay() -> None:
            async with visiting(app) as visitor:
                opened.set_result(visitor)
                await self._stop.wait()

        self._task = asyncio.create_task(stay())
        return await opened

    def run(self, program: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(program)

    def close(self) -> None:
        self._stop.set()
        self._runner.run(asyncio.wait_for(self._task, 60))
        self._runner.close()


def _work() -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.close()


# -- script ------------------------------------------------------------------------------------------------------------


async def in_a_reason(site: Site, said: str) -> str:
    """The reason of a change, on the page that lists changes."""
    assert (await site.visitor.act(f"/actions/pause?job={JOB}", reason=said)).status_code == 303
    return "/audit"


async def in_the_reason_of_a_run(site: Site, said: str) -> str:
    """The reason of a run that somebody wants."""
    answer = await site.visitor.act(f"/actions/trigger?job={TRIGGERED}", reason=said)
    assert answer.status_code == 303
    return f"/actions/replay?run={answer.headers['location'].rpartition('/')[2]}"


async def in_an_event(site: Site, said: str) -> str:
    """What an event says, and of which record and partition."""
    await site.desk.append("RecordCreated", record=f"R {said}", hotel=f"H {said}", data={said: said}, key=uuid4().hex)
    return f"/records/={b'<i>desk'.hex()}"


async def in_an_address(site: Site, said: str) -> str:
    """Which record somebody looks for."""
    return f"/records/={b'<i>desk'.hex()}?record={_quoted(said)}"


async def in_a_window(site: Site, said: str) -> str:
    """From when on somebody wants an audit."""
    return f"/audit?from={_quoted(said)}&to="


async def in_a_name(site: Site, said: str) -> str:
    """The name of a job that there is not."""
    return f"/actions/pause?job={_quoted(said)}"


async def in_a_desk(site: Site, said: str) -> str:
    """The name of a desk that there is not."""
    return f"/records/={said.encode().hex()}"


async def in_a_notice(site: Site, said: str) -> str:
    """A notice that somebody else has left."""
    cookie = base64.urlsafe_b64encode(said.encode()).decode()
    site.visitor.client.cookies.set("itinerary_notice", cookie, domain="127.0.0.1", path="/")
    return "/audit"


PLACES = (
    in_a_reason,
    in_the_reason_of_a_run,
    in_an_event,
    in_an_address,
    in_a_window,
    in_a_name,
    in_a_desk,
    in_a_notice,
)


@pytest.mark.spec("Q2", "all output is escaped")
@pytest.mark.parametrize("said", SCRIPTS, ids=range(len(SCRIPTS)))
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_script_is_text(place: Callable[[Site, str], Coroutine[Any, Any, str]], said: str, site: Site) -> None:
    async def program() -> None:
        address = await place(site, said)
        page = await site.visitor.get(address)
        assert page.status_code in {200, 400, 404}
        assert is_harmless(page.text)
        if place in {in_a_reason, in_an_event, in_a_notice}:
            assert said in unescape(unescape(page.text) if "&lt;" not in said else page.text)
        if "{{" in said:
            assert "49{" not in page.text

    site.run(program())


@pytest.mark.spec("Q2", "all output is escaped")
@pytest.mark.parametrize("said", SCRIPTS, ids=range(len(SCRIPTS)))
@pytest.mark.parametrize("field", ["reason", "from", "which", "max_active", "version"])
def test_what_is_typed_into_a_form_and_refused_comes_back_as_text(field: str, said: str, site: Site) -> None:
    async def program() -> None:
        address = f"/actions/backfill?job={TRIGGERED}"
        fields = {"from": "2020-01-02", "to": "2020-01-01", field: said}
        page = await site.visitor.act(address, **fields)
        assert page.status_code == 400
        assert is_harmless(page.text)
        if field == "reason":
            assert said in unescape(page.text)

    site.run(program())


def is_harmless(page: str) -> bool:
    """Whether every element of a page is one of ours: its scripts are those that are served, nothing has handlers."""
    inside = re.findall(r"<\s*([a-z!][a-z0-9-]*)((?:\s[^<>]*)?)>", page, re.IGNORECASE)
    scripts = [told for name, told in inside if name.lower() == "script"]
    handlers = [told for _, told in inside if re.search(r"\son[a-z]+\s*=", re.sub(r'"[^"]*"', '""', told))]
    foreign = [name for name, _ in inside if name.lower() in {"img", "iframe", "object", "embed", "base"}]
    ours = all(re.fullmatch(r'\s+src="/static/[0-9a-f]+/[a-z]+\.js"(\s+type="module")?', told) for told in scripts)
    return ours and not handlers and not foreign and "<svg/" not in page and "<!--<script" not in page


# -- requests ----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A request, and the answers that are right."""

    what: str
    method: str
    address: str
    answers: tuple[int, ...]
    body: bytes = b""
    media: str | None = None


def posts(what: str, answers: tuple[int, ...], body: bytes, media: str = FORM, action: str = "pause") -> Row:
    return Row(what, "POST", f"/actions/{action}?job={TRIGGERED}", answers, body, media)


KEY = b"key=" + b"0" * 32
ROWS = (
    Row("a file above", "GET", "/static/../../server_state.py", (404,)),
    Row("a file above, in code", "GET", "/static/%2e%2e/%2e%2e/server_state.py", (404,)),
    Row("a file above, in a step", "GET", "/static/..%2f..%2fhouse.py/x", (404,)),
    Row("a file with another hash", "GET", "/static/000000000000/itinerary.css", (404,)),
    Row("a template", "GET", "/templates/frame.html", (404,)),
    Row("a file of the system", "GET", "/records/..%2f..%2f..%2fetc%2fpasswd", (404,)),
    Row("a file of the system, by NUL", "GET", "/records/%00/etc/passwd", (404,)),
    Row("a desk called NUL", "GET", "/records/%00", (404,)),
    Row("a desk in no code", "GET", "/records/=zz", (404,)),
    Row("a desk in bytes that are no text", "GET", "/records/=ff", (404,)),
    Row("a backfill called as a path", "GET", "/backfills/..%2f..%2f", (404,)),
    Row("a backfill of nobody", "GET", "/backfills/" + "x" * 5_000, (404,)),
    Row("an action that there is not", "GET", f"/actions/exec?job={TRIGGERED}", (404,)),
    Row("an action of python's", "GET", f"/actions/__class__?job={TRIGGERED}", (404,)),
    Row("a number below zero", "GET", "/actions/cancel?run=-1", (404,)),
    Row("a number of another kind", "GET", "/actions/cancel?run=0x10", (404,)),
    Row("a number and a statement", "GET", "/actions/cancel?run=1;drop%20table", (404,)),
    Row("a number without end", "GET", "/actions/cancel?run=" + "9" * 4_000, (404,)),
    Row("a number of other digits", "GET", "/actions/cancel?run=%D9%A3", (404,)),
    Row("two jobs", "GET", f"/actions/pause?job={TRIGGERED}&job={JOB}", (400,)),
    Row("no job", "GET", "/actions/pause", (400,)),
    Row("a job and what nobody knows", "GET", f"/actions/pause?job={TRIGGERED}&as=root", (400,)),
    Row("a job of 60 kB", "GET", "/actions/pause?job=" + "x" * 60_000, (404,)),
    Row("a job with a line", "GET", "/actions/pause?job=a%0d%0aSet-Cookie:%20x=1", (404,)),
    Row("a revision below zero", "GET", "/audit?before=-1", (400,)),
    Row("a revision of a billion", "GET", "/audit?before=1e9", (400,)),
    Row("a revision that is too large", "GET", "/audit?before=" + "9" * 30, (400,)),
    Row("an audit of what nobody knows", "GET", "/audit?store=postgresql://evil", (400,)),
    Row("an audit of all time", "GET", "/audit?from=0001-01-01&to=2020-01-01", (400,)),
    Row("an audit of the year 9999", "GET", "/audit?from=9999-12-31&to=9999-12-31T23:59:59%2B14:00", (400,)),
    Row("an event that is no number", "GET", "/records/x?before=abc", (400,)),
    Row("a page of what nobody knows", "GET", "/records/x?limit=100000000", (400,)),
    Row("what was seen, as nonsense", "GET", "/audit?seen=:::,,,%00,a:b:c", (200,)),
    Row("two thousand parameters", "GET", "/audit?" + "&".join(f"a{n}=1" for n in range(2_000)), (400,)),
    Row("DELETE", "DELETE", f"/actions/pause?job={TRIGGERED}", (405,)),
    Row("PUT", "PUT", f"/actions/pause?job={TRIGGERED}", (405,)),
    Row("PATCH", "PATCH", f"/actions/pause?job={TRIGGERED}", (405,)),
    Row("TRACE", "TRACE", f"/actions/pause?job={TRIGGERED}", (405,)),
    Row("a method that there is not", "BREW", f"/actions/pause?job={TRIGGERED}", (405,)),
    Row("POST to a page", "POST", "/audit", (405,), KEY, FORM),
    Row("POST to a file", "POST", "/static/000000000000/itinerary.css", (405,), KEY, FORM),
    posts("JSON", (415,), b'{"reason": "x"}', "application/json"),
    posts("XML", (415,), b"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><x>&e;</x>", "application/xml"),
    posts("parts", (415,), b"--x\r\n\r\n0\r\n--x--", "multipart/form-data; boundary=x"),
    posts("text", (415,), KEY, "text/plain"),
    posts("no type", (415,), KEY, ""),
    posts("nothing", (400,), b""),
    posts("no key", (400,), b"reason=x"),
    posts("a key that is none", (400,), b"key=../../etc/passwd"),
    posts("a key with a line", (400,), b"key=" + b"0" * 31 + b"%0a0"),
    posts("a field that nobody knows", (400,), KEY + b"&by=root"),
    posts("a field of another action", (400,), KEY + b"&max_active=5"),
    posts("bytes that are no text", (400,), KEY + b"&reason=%ff%fe"),
    posts("bytes that are no text, bare", (400,), KEY + b"&reason=\xff\xfe"),
    posts("a thousand fields", (400,), KEY + b"&reason=x" * 1_000),
    posts("more than a megabyte", (413,), KEY + b"&reason=" + b"x" * 1_100_000),
    posts("a reason of a page", (400,), KEY + b"&reason=" + b"x" * 2_000),
    posts("until the past", (400,), KEY + b"&until=2001-01-01"),
    posts("until never", (400,), KEY + b"&until=9999-99-99"),
    posts("until the year 0", (400,), KEY + b"&until=0000-01-01"),
    posts("until a statement", (400,), KEY + b"&until='%3B+drop+table+jobs%3B--"),
    posts("until digits without end", (400,), KEY + b"&until=" + b"9" * 10_000),
    posts("skip nothing", (400,), KEY, action="skip"),
    posts("skip what is not due", (400,), KEY + b"&instant=2198-01-01T00:00:01Z", action="skip"),
    posts("skip by a name", (400,), KEY + b"&instant=%3Cscript%3E", action="skip"),
    posts("a backfill of a century", (400,), KEY + b"&from=1900-01-01&to=2199-01-01", action="backfill"),
    posts("a backfill below one", (400,), KEY + b"&from=2020-01-01&to=2020-01-02&max_active=-1", action="backfill"),
    posts("a backfill of nan", (400,), KEY + b"&from=2020-01-01&to=2020-01-02&max_active=nan", action="backfill"),
    posts("a backfill of digits", (400,), KEY + b"&from=2020-01-01&to=2020-01-02&max_active=%D9%A3", action="backfill"),
    posts("a backfill of some", (400,), KEY + b"&from=2020-01-01&to=2020-01-02&which=__all__", action="backfill"),
)


@pytest.mark.spec("Q4", "of requests")
@pytest.mark.spec("Q7", "unknown keys in requests")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_it_is_refused_and_changes_nothing(row: Row, site: Site) -> None:
    async def program() -> None:
        visitor = site.visitor
        token = (await visitor.form(f"/actions/pause?job={TRIGGERED}"))["_csrf"]
        before = await visitor.node.lent_store().read(EntriesQuery(0))
        headers: Mapping[str, str] = {"Accept": "text/html", "Origin": ORIGIN, "X-CSRF-Token": token}
        told = {**headers, "Content-Type": row.media} if row.media is not None else headers
        answer = await visitor.client.request(row.method, row.address, content=row.body, headers=told)
        assert answer.status_code in row.answers, text_of(answer)
        assert is_harmless(answer.text)
        assert len(answer.content) < 300_000
        assert "Traceback" not in answer.text
        assert "content-security-policy" in answer.headers
        assert await visitor.node.lent_store().read(EntriesQuery(0)) == before

    site.run(program())


def test_there_are_more_than_sixty() -> None:
    assert len(ROWS) + len(SCRIPTS) * (len(PLACES) + 5) > 60


@pytest.mark.spec("Q2", "all output is escaped")
def test_a_reason_with_lines_adds_no_header(site: Site) -> None:
    async def program() -> None:
        answer = await site.visitor.act(f"/actions/resume?job={JOB}", reason="a\r\nSet-Cookie: stolen=1\r\n\r\n<html>")
        assert answer.status_code == 303
        cookies = answer.headers.get_list("set-cookie")
        assert not any("stolen" in cookie for cookie in cookies)

    site.run(program())


@pytest.mark.parametrize("onward", ["//evil.example", "/\\evil.example", "http://evil.example/", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(onward: str, site: Site) -> None:
    async def program() -> None:
        page = await site.visitor.get(f"/login?next={_quoted(onward)}")
        assert page.status_code == 200
        assert 'name="next" value="/"' in page.text

    site.run(program())


@pytest.mark.parametrize("cookie", ["%%%", "x" * 4_000, "____", "gICAgA=="])
def test_a_notice_that_cannot_be_read_is_none(cookie: str, site: Site) -> None:
    async def program() -> None:
        page = await site.visitor.client.get(
            "/audit", headers={"Accept": "text/html", "Cookie": f"itinerary_notice={cookie}"}
        )
        assert page.status_code == 200
        assert 'class="notice"' not in page.text

    site.run(program())


def _quoted(said: str) -> str:
    return "".join(f"%{byte:02x}" for byte in said.encode())
