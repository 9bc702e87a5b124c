"""Store URLs, as settings and commands name them.

    sqlite:///itinerary.db            a file beside the program; four slashes for an absolute path
    postgresql://user@host/database   everything is in a schema of its own
    lmdb:///itinerary                 a directory, for one node
    memory:                           the data ends with the process

No other user may be able to change the files of a SQLite or LMDB store (see `ownership`). `?owner=NAME` and
`?group=NAME` allow one more user, or a group.

Options follow a question mark (`sqlite:///itinerary.db?synchronous=normal`). An unknown option is an error, and so is
an invalid value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from itinerary.errors import ConfigError
from itinerary.model.text import shown
from itinerary.stores.engine import Engine, SchemaSeen
from itinerary.stores.memory import MemoryEngine
from itinerary.stores.ownership import Trust, group_id, user_id
from itinerary.stores.passwords import address_without_password, hide_passwords
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.store import EngineStore

__all__ = ["is_opened_once", "open_store", "schema_at"]

_OPENED_ONCE: Final = ("memory:", "lmdb:")


def is_opened_once(url: str) -> bool:
    """True if a process can open the store of this URL only once. Other callers then use the store through the node."""
    return url.startswith(_OPENED_ONCE)


def open_store(url: str, *, for_node: bool = False) -> EngineStore:
    """Create the store of this URL, to be opened: `async with open_store(url) as store`.

    Args:
        url: The address of the store.
        for_node: True if this process runs the commands in the store. Then its files are checked even for root.

    Raises:
        ConfigError: The URL is not valid.
    """
    hide_passwords(url)
    scheme, _, rest = url.partition(":")
    if scheme not in _ENGINES:
        raise ConfigError(f"store {_shown(url)}: unknown kind {_shown(scheme)}; allowed: {', '.join(_EXAMPLES)}")
    if scheme == "memory" and rest.strip("/"):
        raise ConfigError(f"store {_shown(url)}: a store in memory has no path; write memory:")
    return EngineStore(_ENGINES[scheme](url, for_node))


async def schema_at(url: str) -> SchemaSeen:
    """Return the schema of the store at this URL. Creates and changes nothing.

    Raises:
        StoreError: The store cannot be reached, or belongs to another program.
    """
    store = open_store(url)
    try:
        return await store.schema()
    finally:
        await store.close()


def _memory(_url: str, _for_node: bool) -> Engine:  # noqa: FBT001 - all engine factories have this signature
    return MemoryEngine()


def _sqlite(url: str, for_node: bool) -> Engine:  # noqa: FBT001 - as above
    path, options = _path_and_options(url, _SQLITE_OPTIONS)
    return SqliteEngine(path, trust=_trust(options, for_node=for_node), **options)


def _lmdb(url: str, for_node: bool) -> Engine:  # noqa: FBT001 - as above
    _require("lmdb", "lmdb")
    from itinerary.stores.lmdb import LmdbEngine  # noqa: PLC0415 - an extra

    path, options = _path_and_options(url, _LMDB_OPTIONS)
    return LmdbEngine(path, trust=_trust(options, for_node=for_node), **options)


def _trust(options: dict[str, Any], *, for_node: bool) -> Trust:
    """Remove the options that name trusted users, and return them as a Trust."""
    return Trust(options.pop("owner", None), options.pop("group", None), for_node)


def _postgres(url: str, _for_node: bool) -> Engine:  # noqa: FBT001 - as above
    _require("psycopg", "postgres")
    from itinerary.stores.postgres import PostgresEngine  # noqa: PLC0415 - an extra

    address, _, query = url.partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    ours = {name: given.pop(name) for name in list(given) if name in _POSTGRES_OPTIONS}
    if given:  # the remaining options are for libpq, which checks them
        address = f"{address}?{urlencode(given, quote_via=quote)}"
    return PostgresEngine(address, **_converted(url, ours, _POSTGRES_OPTIONS))


def _path_and_options(url: str, allowed: Mapping[str, Callable[[str], Any]]) -> tuple[str, dict[str, Any]]:
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        scheme = parts.scheme
        raise ConfigError(
            f"store {_shown(url)}: write {scheme}:///relative/path with three slashes, or {scheme}:////absolute/path"
        )
    return path, _converted(url, dict(parse_qsl(parts.query, keep_blank_values=True)), allowed)


def _converted(url: str, given: Mapping[str, str], allowed: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    options = {}
    for name, value in given.items():
        if name not in allowed:
            raise ConfigError(f"store {_shown(url)}: unknown option {shown(name)}; allowed: {', '.join(allowed)}")
        try:
            options[name] = allowed[name](value)
        except ValueError as error:
            raise ConfigError(f"store {_shown(url)}: {name} cannot be {shown(value)}") from error
    return options


def _shown(url: str) -> str:
    """Return a URL for messages, without any text that may be a password."""
    return shown(address_without_password(url))


def _switch(value: str) -> bool:
    if value not in _SWITCHES:
        raise ValueError(value)
    return _SWITCHES[value]


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ConfigError(f"this store needs the package {module}; install itinerary-scheduler[{extra}]")


_SWITCHES: Final = {"on": True, "true": True, "off": False, "false": False}
_FILE_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "answer_timeout": float,
    "owner": user_id,
    "group": group_id,
}
_SQLITE_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "synchronous": str,
    "busy_timeout": float,
    **_FILE_OPTIONS,
}
_LMDB_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "map_size": int,
    "map_max": int,
    "sync": _switch,
    **_FILE_OPTIONS,
}
_POSTGRES_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "schema": str,
    "connections": int,
    "task_connections": int,
    "prepared_statements": _switch,
    "listen": _switch,
    "patience": float,
    "lock_timeout": float,
    "idle_timeout": float,
    "answer_timeout": float,
}
_ENGINES: Final[Mapping[str, Callable[[str, bool], Engine]]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "lmdb": _lmdb,
}
_EXAMPLES: Final = ("sqlite:///file", "postgresql://host/database", "lmdb:///directory", "memory:")
