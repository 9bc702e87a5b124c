"""The address of the server, and the connections to it.

The address is in the format of libpq, a URL or `key=value` pairs. Itinerary's own options have been removed from it
(see `stores.urls`).

**A dead peer**, whose machine or network is gone, is detected. Connecting has a timeout, an idle connection is probed,
and sent data must be acknowledged within half a minute. That is not enough: a frozen backend, or a proxy that loses
bytes, acknowledges everything and answers nothing. So each wait for an answer has a deadline as well (see `deadlines`).

**A pooler** in front of the server (PgBouncer and others) may give each transaction another session. The sign of it:
the process that answers is not the one that was announced when connecting. Then nothing is prepared. For a pooler
without this sign, the operator sets `prepared_statements` and `listen`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from itinerary.errors import StoreError
from itinerary.stores.postgres import arrays
from itinerary.stores.postgres.deadlines import Deadlines, WatchedConnection, sever
from itinerary.stores.postgres.failures import said
from itinerary.stores.postgres.statements import SHAPES_MAX

__all__ = ["Address", "Connections", "is_pooled", "parse", "sever"]

_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "itinerary",
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_SCHEMA_BYTES_MAX: Final = 63

_FINAL_REFUSALS: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "not permitted to log in",
    "permission denied for database",
    "not currently accepting connections",
    "does not support SSL",
)
"""Answers to a connection attempt that a retry does not change. The server gives no code with them."""


class Address(msgspec.Struct, frozen=True):
    """The address of a store, and the options of its connections."""

    options: dict[str, Any]
    """The options for libpq."""
    shown: str
    """The address for messages, without a password."""
    schema: str
    is_prepared: bool
    """True if statements may be prepared."""
    is_listening: bool
    """True if LISTEN may be used."""

    def __repr__(self) -> str:
        """Return the address without `options`, which have the password."""
        return f"Address({self.shown!r})"


def parse(url: str, *, schema: str, prepared_statements: bool = True, listen: bool = True) -> Address:
    """Parse an address.

    Raises:
        StoreError: The address or the schema name is not valid.
    """
    try:
        options = conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # the message quotes the input, which may have the password
        raise StoreError(
            "the store's address is not one of PostgreSQL: expected postgresql://user@host:port/database, with special"
            " characters in it percent-encoded"
        ) from None
    if not schema or len(schema.encode()) > _SCHEMA_BYTES_MAX or schema.startswith("pg_"):
        raise StoreError(f"schema {schema!r}: expected 1 to {_SCHEMA_BYTES_MAX} bytes that do not begin with pg_")
    return Address(
        {**_DEFAULTS, **options, "client_encoding": "UTF8"},
        _shown(options, schema),
        schema,
        prepared_statements,
        listen,
    )


def _shown(options: Mapping[str, Any], schema: str) -> str:
    """Return the address for messages: user, hosts, database and schema only."""
    hosts = str(options.get("host") or options.get("hostaddr") or "").split(",")
    ports = str(options.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports[:1] * len(hosts)  # one port for all hosts
    where = ",".join(quote(host, safe=":[]") + (port and f":{port}") for host, port in zip(hosts, ports, strict=False))
    user = f"{quote(str(options['user']))}@" if "user" in options else ""
    return f"postgresql://{user}{where}/{quote(str(options.get('dbname', '')))}?schema={quote(schema)}"


def is_pooled(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], answered_by: int) -> bool:
    """True if a pooler is between us and the server process that answered."""
    return connection.info.backend_pid != answered_by


class Connections:
    """Connections for one kind of use.

    A borrower has exclusive use, and the number of borrowers limits the connections.
    """

    def __init__(self, address: Address, deadlines: Deadlines, *, is_prepared: bool) -> None:
        self._address = address
        self._deadlines = deadlines
        self._is_prepared = is_prepared and address.is_prepared
        self._idle: deque[WatchedConnection] = deque()
        self._lent: set[WatchedConnection] = set()
        self._is_closed = False
        self.is_pooled = False
        """True if the last new connection leads to a pooler."""

    def borrow(self) -> WatchedConnection:
        """Return an idle connection, or a new one.

        Raises:
            StoreError: The server refuses us, and a retry does not help.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._connect()
        self._lend(connection)
        return connection

    def give_back(self, connection: WatchedConnection) -> None:
        """Return a connection. If it is not in the state in which it was lent, it is closed."""
        self._take_back(connection)
        is_clean = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        if is_clean and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.close()
        if self._is_closed:
            self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections. If one is dead, the others are probably dead too."""
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def cut_lent(self) -> None:
        """Cut the connections in use. The threads that wait on them get an error."""
        for connection in list(self._lent):
            sever(connection)

    def close(self) -> None:
        """Close all connections. Connections in use are closed when they are returned."""
        self._is_closed = True
        self.close_idle()

    def _lend(self, connection: WatchedConnection) -> None:
        self._lent.add(connection)
        self._deadlines.watch(connection)

    def _take_back(self, connection: WatchedConnection) -> None:
        self._deadlines.forget(connection)
        self._lent.discard(connection)

    def _connect(self) -> WatchedConnection:
        try:
            connection = WatchedConnection.connect(autocommit=True, **self._address.options)
        except psycopg.OperationalError as error:
            if any(words in str(error) for words in _FINAL_REFUSALS):
                raise StoreError(
                    f"{self._address.shown} does not let us in: {said(error)}; check the address, the user and the"
                    " password"
                ) from error
            raise
        self._lend(connection)
        try:
            arrays.register(connection)
            connection.prepare_threshold = None
            answer = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert answer is not None
            self.is_pooled = is_pooled(connection, answer[0])
            if self._is_prepared and not self.is_pooled:
                connection.prepare_threshold = 1
                connection.prepared_max = SHAPES_MAX
        except BaseException:
            self._take_back(connection)
            connection.close()
            raise
        return connection
