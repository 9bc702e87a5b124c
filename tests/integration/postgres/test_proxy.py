"""The proxy that other tests rely on does to a connection what it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import psycopg
import pytest

from tests.proxy import Direction, Proxy, When

_SILENCE = 0.2
"""Seconds without an answer after which a test takes a connection for silent."""
_ANSWER_FOR = 30.0
"""Seconds in which an answer has to come that nothing holds up."""


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with Proxy(url) as opened:
        yield opened


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def rows(url: str) -> Iterator[psycopg.Connection[tuple[int]]]:
    """A connection that does not go through the proxy, to a table that is empty."""
    with psycopg.connect(url, autocommit=True) as direct:
        direct.execute("CREATE TABLE seen (number int)")
        yield direct


def _count(rows: psycopg.Connection[tuple[int]]) -> int:
    found = rows.execute("SELECT count(*) FROM seen").fetchone()
    assert found is not None
    return found[0]


def _asked(threads: ThreadPoolExecutor, connection: psycopg.Connection[tuple[int]], statement: str) -> Future[int]:
    """The answer to this, when it comes."""
    return threads.submit(lambda: connection.execute(statement.encode()).rowcount)


def _is_silent(answer: Future[int]) -> bool:
    return not wait([answer], timeout=_SILENCE).done


def test_what_stalls_is_delivered_when_it_heals(proxy: Proxy, threads: ThreadPoolExecutor) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.stall()
        answer = _asked(threads, connection, "SELECT 1")
        assert _is_silent(answer)
        proxy.heal()
        assert answer.result(_ANSWER_FOR) == 1


@pytest.mark.parametrize("lost", ["requests", "answers"])
def test_a_half_open_connection_loses_one_direction(
    proxy: Proxy,
    rows: psycopg.Connection[tuple[int]],
    threads: ThreadPoolExecutor,
    lost: Direction,
) -> None:
    connection = psycopg.connect(proxy.url, autocommit=True)
    proxy.half_open(lost)
    answer = _asked(threads, connection, "INSERT INTO seen VALUES (1)")
    assert _is_silent(answer)
    until = time.monotonic() + _ANSWER_FOR
    while lost == "answers" and not _count(rows) and time.monotonic() < until:
        pass
    assert _count(rows) == (0 if lost == "requests" else 1)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        answer.result(_ANSWER_FOR)


def test_what_is_dropped_stays_lost_and_new_connections_are_silent_until_it_heals(
    proxy: Proxy, threads: ThreadPoolExecutor
) -> None:
    connection = psycopg.connect(proxy.url, autocommit=True)
    proxy.drop()
    answer = _asked(threads, connection, "SELECT 1")
    assert _is_silent(answer)
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        psycopg.connect(proxy.url, connect_timeout=2)
    proxy.heal()
    assert _is_silent(answer)
    psycopg.connect(proxy.url).close()
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        answer.result(_ANSWER_FOR)


def test_a_fault_on_open_connections_leaves_new_ones_alone_and_the_reverse(proxy: Proxy) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as first:
        proxy.stall("open")
        with psycopg.connect(proxy.url, autocommit=True) as second:
            assert second.execute("SELECT 2").fetchone() == (2,)
        proxy.heal()
        proxy.stall("new")
        assert first.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(proxy.url, connect_timeout=2)
        proxy.heal()


def test_a_cut_resets_open_connections_and_lets_new_ones_in(proxy: Proxy) -> None:
    connection = psycopg.connect(proxy.url, autocommit=True)
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    psycopg.connect(proxy.url).close()


def test_a_delay_holds_what_passes(proxy: Proxy, threads: ThreadPoolExecutor) -> None:
    with psycopg.connect(proxy.url, autocommit=True) as connection:
        proxy.delay(2 * _ANSWER_FOR)
        answer = _asked(threads, connection, "SELECT 1")
        assert _is_silent(answer)
        proxy.heal()
        assert answer.result(_ANSWER_FOR) == 1


@pytest.mark.parametrize("when", ["before", "forwarded", "answered"])
@pytest.mark.parametrize("how", ["simple", "pipelined", "prepared"])
def test_a_commit_is_recognised_in_each_protocol_and_cut_where_it_was_asked(
    proxy: Proxy, rows: psycopg.Connection[tuple[int]], how: str, when: When
) -> None:
    threshold = 0 if how == "prepared" else None
    connection = psycopg.connect(proxy.url, autocommit=True, prepare_threshold=threshold)
    for is_last in (False, True):
        if is_last:
            proxy.cut_at_commit(when)
        try:
            if how == "simple":
                connection.execute(b"BEGIN")
                connection.execute(b"INSERT INTO seen VALUES (1)")
                connection.execute(b"COMMIT")
            else:
                with connection.pipeline():
                    connection.execute(b"BEGIN")
                    connection.execute(b"INSERT INTO seen VALUES (1)")
                    connection.execute(b"COMMIT")
        except psycopg.OperationalError:
            assert is_last
        else:
            assert not is_last
    assert proxy.commits_cut == 1
    stands = _count(rows)
    if when != "forwarded":
        assert stands == (1 if when == "before" else 2)
    connection.close()
