"""HTTP calls: one request, one answer, and a range of statuses that counts as success.

    begin ──► address checked and pinned (see `address_policy`) ──► request ──► status, body
    stop, kill ──► the request is cancelled

The executor follows no redirects, because their targets were never checked. The first megabyte of the body is kept as
output, and then the connection is closed. A request contains only the content of its definition: no cookies, no proxy
from the environment, no credentials from a file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextvars import Context
from http import HTTPStatus
from typing import Final

import aiohttp
import structlog
from multidict import CIMultiDict

from itinerary.errors import ItineraryError
from itinerary.executors.address_policy import HostLookup, checked_addresses, system_lookup
from itinerary.executors.base import BaseExecutor, InFlight
from itinerary.executors.host_names import read_allowed
from itinerary.executors.http_definition import HttpCall, check_header, read_http
from itinerary.executors.outcomes import could_not_begin, failure
from itinerary.executors.output import OUTPUT_MAX, Tail
from itinerary.executors.pinned_resolver import PinnedResolver
from itinerary.executors.secret_hosts import ANY_HOST, SecretHosts
from itinerary.executors.secrets import SecretResolver, environment_secret, has_secrets, resolve_values
from itinerary.model.attempts import Assignment, Failed, Outcome, Stopped, Succeeded
from itinerary.model.retries import exception_names
from itinerary.model.text import clean_text

__all__ = ["CONNECT_TIMEOUT", "HttpExecutor"]

CONNECT_TIMEOUT: Final = 30.0
"""The limit for opening a connection, in seconds. The limit for the answer is the task's timeout."""

_CLOSING_TIMEOUT: Final = 2.0
"""Seconds that cancelled requests have to end when the executor closes."""
_CHUNK: Final = 65_536
_ERROR_MAX: Final = 2_000

_log: Final = structlog.stdlib.get_logger()


class _Running(InFlight):
    """An attempt with its call and its asyncio task."""

    __slots__ = ("call", "task")

    def __init__(self, assignment: Assignment, call: HttpCall) -> None:
        super().__init__(assignment)
        self.call = call
        self.task: asyncio.Task[None] | None = None


class HttpExecutor(BaseExecutor[_Running]):
    """The executor of HTTP calls, on the node's loop. Calls may reach `allowed_hosts` even at non-public addresses."""

    def __init__(
        self,
        *,
        allowed_hosts: Collection[str] = (),
        secrets: SecretResolver = environment_secret,
        secret_hosts: SecretHosts = ANY_HOST,
        lookup: HostLookup = system_lookup,
    ) -> None:
        super().__init__()
        self._secret_hosts = secret_hosts
        self._allowed = read_allowed(allowed_hosts)
        self._secrets = secrets
        self._lookup = lookup
        self._tasks: set[asyncio.Task[None]] = set()

    def _accept(self, assignment: Assignment) -> _Running:
        return _Running(assignment, read_http(assignment.run))

    def _launch(self, attempt: _Running) -> None:
        attempt.task = asyncio.get_running_loop().create_task(self._run(attempt), context=Context())
        self._tasks.add(attempt.task)
        attempt.task.add_done_callback(self._tasks.discard)

    def _stop(self, attempt: _Running) -> None:
        if not attempt.is_stop_asked:
            attempt.is_stop_asked = True
            assert attempt.task is not None, "it was launched"
            attempt.task.cancel()
            stopped = Stopped(was_called=attempt.was_called)
            attempt.task.add_done_callback(lambda _: self._end(attempt.key, stopped))  # it may not even have begun

    def _kill(self, attempt: _Running) -> None:
        self._stop(attempt)
        attempt.is_given_up = True
        self._end(attempt.key, Stopped(was_called=attempt.was_called))

    async def _shut_down(self) -> None:
        self.kill(list(self._in_flight))
        if self._tasks:
            _, left = await asyncio.wait(list(self._tasks), timeout=_CLOSING_TIMEOUT)
            if left:
                _log.error("http.calls_left_behind", count=len(left))

    async def _run(self, attempt: _Running) -> None:
        outcome: Outcome
        try:
            outcome = await self._called(attempt)
        except asyncio.CancelledError as error:
            if not attempt.is_stop_asked:
                self._end(attempt.key, failure(error))
            raise
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            outcome = Failed(clean_text(f"{attempt.call.shown}: {what}", _ERROR_MAX), exception_names(type(error)))
        except ItineraryError as error:
            outcome = Failed(clean_text(f"{attempt.call.shown}: {error}", _ERROR_MAX), exception_names(type(error)))
        except Exception as error:  # noqa: BLE001 - an attempt ends here
            outcome = could_not_begin(error)
        self._end(attempt.key, outcome)

    async def _called(self, attempt: _Running) -> Outcome:
        call = attempt.call
        self._secret_hosts.check(call)
        if has_secrets(call.headers):  # a secret may be in a file
            headers, secrets = await asyncio.to_thread(resolve_values, call.headers, self._secrets)
        else:
            headers, secrets = resolve_values(call.headers, self._secrets)
        for name, value in headers.items():
            check_header(name, value)
        addresses = await checked_addresses(call.host, call.port, self._allowed, self._lookup)
        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(call.host, addresses), use_dns_cache=False, force_close=True, limit=1
        )
        attempt.was_called = True
        async with (
            aiohttp.ClientSession(
                connector=connector,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            ) as session,
            session.request(
                call.method, call.url, headers=CIMultiDict(headers), data=call.body, allow_redirects=False
            ) as response,
        ):
            output = await _body(response, secrets)
            return _judged(call, response, output)


async def _body(response: aiohttp.ClientResponse, secrets: dict[str, str]) -> str | None:
    """Return the beginning of an answer. The rest is never read."""
    kept = Tail(2 * OUTPUT_MAX)
    async for chunk in response.content.iter_chunked(_CHUNK):
        kept.write(chunk[: OUTPUT_MAX - len(kept)])
        if len(kept) >= OUTPUT_MAX:
            response.close()
            return await asyncio.to_thread(_beginning, kept, secrets)
    return await asyncio.to_thread(kept.text, secrets) if kept.takes_long else kept.text(secrets)


def _beginning(kept: Tail, secrets: dict[str, str]) -> str:
    text = kept.text(secrets) or ""
    note = f"\n… what follows the first {OUTPUT_MAX} bytes is not kept …"
    return text.encode()[: OUTPUT_MAX - len(note.encode())].decode("utf-8", "ignore") + note


def _judged(call: HttpCall, response: aiohttp.ClientResponse, output: str | None) -> Outcome:
    low, high = call.expect
    if low <= response.status <= high:
        return Succeeded(f'{{"status":{response.status}}}', output)
    try:
        status = f"{response.status} {HTTPStatus(response.status).phrase}"
    except ValueError:
        status = str(response.status)
    redirect = "; redirects are not followed" if 300 <= response.status <= 399 else ""
    return Failed(f"{call.shown} answered {status}, expected was {low} to {high}{redirect}", output=output)
