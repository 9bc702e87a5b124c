"""Read settings: arguments > `ITINERARY_*` > a TOML file > defaults.

    Itinerary(store="…")        the arguments of the program
    ITINERARY_STORE=…           the environment
    jobs.toml                   the job file, if any: settings at its top level (see `jobs.job_file`)
    itinerary.toml              in the working directory, or where ITINERARY_CONFIG points
    defaults                    sqlite:///itinerary.db, UTC, the name of the machine

The sources are merged key by key. An error names the place of the wrong value: a file with its line, a variable, an
argument. An unknown key is an error with a suggestion, since a misspelt setting that is silently ignored would be
noticed only in an incident.

`[defaults]` in the file are overrides for all jobs, the level above a job's own. Variables that begin with
ITINERARY_SECRET_ are secrets and not settings; those that begin with ITINERARY_TEST_ are for the tests.
"""

from __future__ import annotations

import re
import socket
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

import msgspec
from msgspec.structs import replace

from itinerary.config.job_options import UpdatePolicyLike
from itinerary.errors import ConfigError
from itinerary.executors.definitions import read_environment
from itinerary.executors.http_definition import read_http
from itinerary.executors.pods.policy import PodPolicy, check_rights
from itinerary.executors.secret_hosts import SecretHosts, read_secret_hosts
from itinerary.executors.secrets import SECRET_PREFIX, Secret, Value, read_value
from itinerary.executors.task_policy import TaskPolicy
from itinerary.masking import without_hidden
from itinerary.model.config import check_timeouts, resolve
from itinerary.model.overrides import NOTHING, OverrideLevel, Overrides, read_overrides
from itinerary.model.policies import Undeclared
from itinerary.model.scopes import LocalScope
from itinerary.model.settings import Settings, check_setting, read_settings
from itinerary.model.text import check_name, shown
from itinerary.model.validators import check_keys, one_of, zone_name
from itinerary.observe.listen_address import ListenAt, read_listen_at, read_network
from itinerary.schedules import packaged_zone
from itinerary.schedules.durations import DurationLike
from itinerary.schedules.suggestions import nearest
from itinerary.stores.passwords import hide_passwords

__all__ = [
    "DEFAULT_STORE",
    "OWN_KEYS",
    "SETTING_KEYS",
    "Configuration",
    "NodeSettings",
    "SettingsSource",
    "blamed_key",
    "check_one",
    "configured",
    "read_configuration",
]

DEFAULT_STORE: Final = "sqlite:///itinerary.db"
CONFIG_FILE: Final = "itinerary.toml"
PREFIX: Final = "ITINERARY_"
_CONFIG_VARIABLE: Final = "ITINERARY_CONFIG"
_NOT_SETTINGS: Final = (SECRET_PREFIX, "ITINERARY_TEST_", _CONFIG_VARIABLE)
OWN_KEYS: Final = (
    "store",
    "timezone",
    "name",
    "allow_modules",
    "allow_hosts",
    "secret_hosts",
    "pod_images",
    "pod_namespaces",
    "pod_service_accounts",
    "pod_allow",
    "health",
    "health_token",
    "web",
    "web_names",
    "web_local",
    "web_proxies",
    "alert_urls",
    "alert_secret",
    "undeclared",
    "pod_namespace",
    "user",
    "group",
    "allow_debugger",
)
"""The settings of a node besides its numeric settings."""
SETTING_KEYS: Final = (*OWN_KEYS, "defaults", *Settings.__struct_fields__)
"""The keys that are allowed in a file."""
_WEB: Final = "127.0.0.1:8321"
_LISTED_MAX: Final = 1_000
_URLS_MAX: Final = 20
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
"""The syntax of a Kubernetes namespace."""
_ACCOUNTS_MAX: Final = 2**32 - 1
"""The number that means "no user" or "no group" to the system."""
_SWITCHES: Final = {"true": True, "false": False}
_BY_NAME: Final = "secret:"
"""The prefix of a variable's value that refers to a secret."""


class NodeSettings(TypedDict, total=False):
    """The numeric settings of a node as arguments of `Itinerary(…)`; see the reference of settings for each."""

    pre_schedule_interval: DurationLike
    index_rebuild_interval: DurationLike
    lookahead_window: DurationLike
    grace_period: DurationLike
    loop_interval: DurationLike
    inbox_buffer_size: int
    inbox_send_timeout: DurationLike
    orchestrator_heartbeat_interval: DurationLike
    max_missed_orchestrator_heartbeats: int
    node_heartbeat_interval: DurationLike
    takeover_after: DurationLike
    max_concurrent_jobs: int
    recovery_pace: int
    shutdown_grace_period: DurationLike
    kill_grace: DurationLike
    reaper_interval: DurationLike
    max_buffered_updates: int
    update_flush_threshold: int
    update_flush_interval: DurationLike
    stats_flush_threshold: int
    stats_flush_interval: DurationLike
    limits: Mapping[str, int]
    update_policy: UpdatePolicyLike
    keep_for: DurationLike
    keep_failed_for: DurationLike
    keep_max: int
    metrics_jobs_max: int
    web_workers: int
    web_work_timeout: DurationLike
    web_work_megabytes: int
    web_work_cpu_for: DurationLike


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The complete, checked settings."""

    store: str
    timezone: str | None
    name: str
    allow_modules: tuple[str, ...]
    """Modules from which a definition may name code (Q3), besides the modules of declared functions."""
    allow_hosts: tuple[str, ...]
    """Hosts that HTTP tasks may call although their addresses are not public (Q5)."""
    secret_hosts: Mapping[str, tuple[str, ...]]
    """The hosts that may receive a secret, by its name. A secret that is not named here is not bound to hosts."""
    pod_images: tuple[str, ...] | None
    """Patterns of allowed pod images; None: any."""
    pod_namespaces: tuple[str, ...] | None
    """Namespaces that pods may use; None: any."""
    pod_service_accounts: tuple[str, ...] | None
    """Service accounts that pods may use; None: any."""
    pod_allow: tuple[str, ...]
    """The rights on their machine that pods may request."""
    health: ListenAt | None
    """The address of probes and metrics (U8); None: no listener."""
    health_token: str | None
    """The name of the secret that requests to that address must carry."""
    web: ListenAt | None
    """The address of the dashboard and the HTTP API of `itinerary up` (U10); None: no server."""
    web_may_move: bool
    """True if another port may be used when that one is taken, because the user named none."""
    web_names: tuple[str, ...]
    """Further host names of the dashboard in browsers, for example that of a proxy."""
    web_local: LocalScope | None
    """The scope of a caller on this machine without a token; None: operate, until the store has a token."""
    web_proxies: tuple[str, ...]
    """Addresses and networks of trusted proxies, which may report the address of a client."""
    alert_urls: tuple[Value, ...]
    """The receivers of alerts (U12): URLs, or references to them."""
    alert_secret: str | None
    """The name of the secret that signs alerts."""
    undeclared: Undeclared | None
    """The policy for jobs that their source no longer declares; None: not set."""
    pod_namespace: str | None
    """The namespace of pods that name none; None: the one of the credentials."""
    user: str | int | None
    """The user of commands; None: the user of the node."""
    group: str | int | None
    """The group of commands; None: that of `user`."""
    allow_debugger: bool
    """True if other processes of the node's user may read its memory."""
    settings: Settings
    defaults: Overrides
    """Overrides for all jobs."""
    env: Mapping[str, object]
    """Variables of all commands: `[defaults] env`."""

    def __repr__(self) -> str:
        """Return all settings, without the password of the store."""
        return without_hidden(super().__repr__())

    @property
    def task_policy(self) -> TaskPolicy:
        """The restrictions of tasks on this node."""
        return TaskPolicy(
            secret_hosts=SecretHosts({name: frozenset(hosts) for name, hosts in self.secret_hosts.items()}),
            pods=PodPolicy(
                images=self.pod_images,
                namespaces=self.pod_namespaces,
                service_accounts=self.pod_service_accounts,
                rights=self.pod_allow,
            ),
        )


class SettingsSource(msgspec.Struct, frozen=True):
    """A source of settings, with the name of the place for each key."""

    values: Mapping[str, object]
    called: Callable[[str], str]


def read_configuration(
    arguments: Mapping[str, object],
    environ: Mapping[str, str],
    directory: Path,
    job_file: SettingsSource | None = None,
) -> Configuration:
    """Read the settings from all sources.

    Args:
        arguments: The arguments of the program.
        environ: The environment.
        directory: The working directory.
        job_file: The settings of the job file.

    Raises:
        ConfigError: A setting is not valid. The message begins with the place.
    """
    above_jobs = () if job_file is None else (job_file,)
    sources = [_file(environ, directory), *above_jobs, _environment(environ), _arguments(arguments)]
    values: dict[str, object] = {}
    called: dict[str, Callable[[str], str]] = {}
    for source in sources:
        for key, value in source.values.items():
            if value is not None:
                values[key], called[key] = value, source.called
    try:
        return configured(values)
    except ConfigError as error:
        blamed = blamed_key(str(error), called)
        raise ConfigError(str(error) if blamed is None else f"{called[blamed](blamed)}{error}") from error


def blamed_key(error: str, given: Collection[str]) -> str | None:
    """Return the key that an error concerns: its first word, or one of two that contradict each other."""
    first = re.split(r"[.:]", error, maxsplit=1)[0]
    if first in given:
        return first
    return next(
        (word for word in re.findall(r"\w+", error) if word in given and word in Settings.__struct_fields__), None
    )


def configured(values: Mapping[str, object]) -> Configuration:
    """Return the configuration with these keys, and defaults for all others.

    Raises:
        ConfigError: A setting is not valid. The message begins with the key.
    """
    timezone = values.get("timezone")
    return Configuration(
        store=_text("store", values.get("store", DEFAULT_STORE)),
        timezone=None if timezone is None else _zone(timezone),
        name=_text("name", values.get("name", socket.gethostname() or "node")),
        allow_modules=_texts("allow_modules", values.get("allow_modules", ())),
        allow_hosts=_texts("allow_hosts", values.get("allow_hosts", ())),
        secret_hosts=read_secret_hosts(values.get("secret_hosts", {})),
        pod_images=_allowed("pod_images", values.get("pod_images")),
        pod_namespaces=_allowed("pod_namespaces", values.get("pod_namespaces")),
        pod_service_accounts=_allowed("pod_service_accounts", values.get("pod_service_accounts")),
        pod_allow=check_rights("pod_allow", _texts("pod_allow", values.get("pod_allow", ()))),
        health=_health(values.get("health", ""), values.get("health_token")),
        health_token=_secret_name("health_token", values.get("health_token")),
        web=_web(values.get("web", _WEB)),
        web_may_move="web" not in values,
        web_names=_texts("web_names", values.get("web_names", ())),
        web_local=_web_local(values.get("web_local")),
        web_proxies=_networks("web_proxies", values.get("web_proxies", ())),
        alert_urls=_urls(values.get("alert_urls", ())),
        alert_secret=_secret_name("alert_secret", values.get("alert_secret")),
        undeclared=_undeclared(values.get("undeclared")),
        pod_namespace=_pod_namespace(values.get("pod_namespace")),
        user=_account("user", values.get("user")),
        group=_account("group", values.get("group")),
        allow_debugger=_switch("allow_debugger", values.get("allow_debugger", False)),
        settings=read_settings({key: value for key, value in values.items() if key in Settings.__struct_fields__}),
        defaults=_defaults(values.get("defaults"), timezone),
        env=_env(values.get("defaults")),
    )


def check_one(key: str, value: object) -> None:
    """Raise ConfigError if a key cannot have this value, regardless of the others."""
    if key in Settings.__struct_fields__:
        check_setting(key, value)
    else:
        configured({key: value})


def _defaults(given: object, timezone: object) -> Overrides:
    if isinstance(given, Mapping):
        given = {key: value for key, value in given.items() if key != "env"}
    try:
        defaults = NOTHING if given is None else read_overrides(given, OverrideLevel.SETTINGS)
        check_timeouts(resolve(settings=defaults))
    except ConfigError as error:
        raise ConfigError(f"defaults.{error}") from error
    if defaults.timezone is not None:
        raise ConfigError("defaults.timezone: stands at the top, as timezone, and not among the defaults")
    return defaults if timezone is None else replace(defaults, timezone=_zone(timezone))


def _env(given: object) -> Mapping[str, object]:
    """Return the variables of all commands, as written."""
    env = given.get("env", {}) if isinstance(given, Mapping) else {}
    try:
        read_environment(env)
    except ConfigError as error:
        raise ConfigError(f"defaults.{error}") from error
    return dict(env)


def _health(value: object, token: object) -> ListenAt | None:
    if value == "":
        return None
    at = read_listen_at("health", str(value) if isinstance(value, int) else _text("health", value))
    if token is None and not at.is_loopback:
        raise ConfigError(
            f"health: {at} can be reached from elsewhere, and needs a token; "
            f"set health_token to NAME, and {SECRET_PREFIX}NAME in the environment to the token"
        )
    return at


def _web(value: object) -> ListenAt | None:
    if value == "":
        return None
    return read_listen_at("web", str(value) if isinstance(value, int) else _text("web", value))


def _urls(value: object) -> tuple[Value, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"alert_urls: {shown(value)} is not a list of URLs")
    if len(value) > _URLS_MAX:
        raise ConfigError(f"alert_urls: {len(value)} URLs are too many; {_URLS_MAX} are allowed")
    found = tuple(read_value("alert_urls", item) for item in value)
    for url in found:
        if isinstance(url, str):
            try:
                read_http({"http": url})
            except ConfigError as error:
                raise ConfigError(f"alert_urls: {str(error).removeprefix('http: ')}") from error
    return found


def _secret_name(key: str, value: object) -> str | None:
    """Return the name of a secret, which may be written as a reference."""
    if value is None:
        return None
    found = read_value(key, {"secret": value} if isinstance(value, str) else value)
    assert isinstance(found, Secret), "a reference is one"
    return found.name


def _undeclared(value: object) -> Undeclared | None:
    return None if value is None else one_of(Undeclared)("undeclared", value)


def _web_local(value: object) -> LocalScope | None:
    return None if value is None else one_of(LocalScope)("web_local", value)


def _pod_namespace(value: object) -> str | None:
    if value is None or (isinstance(value, str) and _NAMESPACE.fullmatch(value)):
        return value
    raise ConfigError(
        f"pod_namespace: {shown(value)} is not a namespace; write a-z, 0-9 and '-', such as itinerary-tasks"
    )


def _account(key: str, value: object) -> str | int | None:
    """Read the name or number of an account."""
    match value:
        case None:
            return None
        case bool():
            raise ConfigError(f"{key}: {shown(value)} is neither a name nor a number")
        case int() if 0 <= value < _ACCOUNTS_MAX:
            return value
        case int():
            raise ConfigError(f"{key}: {value} is out of range 0-{_ACCOUNTS_MAX - 1}")
        case _:
            return _text(key, value)


def _switch(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{key}: {shown(value)} is not a switch; write true or false")
    return value


def _zone(value: object) -> str:
    name = zone_name("timezone", value)
    try:
        packaged_zone(name)
    except ValueError as error:
        raise ConfigError(f"timezone: {error}") from error
    return name


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key}: {shown(value)} is not text")
    if key == "store":
        hide_passwords(value)
    try:
        return value if key == "store" and value else check_name(key, value)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error


def _texts(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set | frozenset):
        raise ConfigError(f"{key}: {shown(value)} is not a list of names")
    if len(value) > _LISTED_MAX:
        raise ConfigError(f"{key}: {len(value)} names are too many; {_LISTED_MAX} are allowed")
    return tuple(_text(key, item) for item in value)


def _allowed(key: str, value: object) -> tuple[str, ...] | None:
    """Read a list of allowed values; None if it is not set, which allows every value."""
    return None if value is None else _texts(key, value)


def _networks(key: str, value: object) -> tuple[str, ...]:
    return tuple(str(read_network(key, text)) for text in _texts(key, value))


# -- sources -----------------------------------------------------------------------------------------------------------


def _arguments(given: Mapping[str, object]) -> SettingsSource:
    def called(_: str) -> str:
        return "Itinerary: "

    return SettingsSource(_known(given, called), called)


def _environment(environ: Mapping[str, str]) -> SettingsSource:
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable.startswith(_NOT_SETTINGS):
            continue
        key = variable.removeprefix(PREFIX).lower()
        if key not in SETTING_KEYS or key == "defaults":
            close = nearest(key, [known for known in SETTING_KEYS if known != "defaults"])
            hint = f"did you mean {PREFIX}{close.upper()}?" if close else "see the reference of settings"
            raise ConfigError(f"{variable}: no setting has this name; {hint}")
        values[key] = _from_text(variable, key, text)
    return SettingsSource(values, lambda key: f"{PREFIX}{key.upper()}: ")


def _from_text(variable: str, key: str, text: str) -> object:
    """Parse the value of a variable: lists with commas, limits as `api=5,mail=2`, numbers in digits."""
    match key:
        case (
            "store"
            | "timezone"
            | "name"
            | "health"
            | "health_token"
            | "web"
            | "web_local"
            | "alert_secret"
            | "undeclared"
            | "pod_namespace"
        ):
            return text
        case (
            "allow_modules"
            | "allow_hosts"
            | "pod_images"
            | "pod_namespaces"
            | "pod_service_accounts"
            | "pod_allow"
            | "web_names"
            | "web_proxies"
        ):
            return [item.strip() for item in text.split(",") if item.strip()]
        case "alert_urls":
            items = [item.strip() for item in text.split(",") if item.strip()]
            return [{"secret": item[len(_BY_NAME) :]} if item.startswith(_BY_NAME) else item for item in items]
        case "allow_debugger":
            return _SWITCHES.get(text.strip().lower(), text)
        case "limits":
            pairs = [item.partition("=") for item in text.split(",") if item.strip()]
            if any(not equals or not _is_number(shares.strip()) for _, equals, shares in pairs):
                raise ConfigError(f"{variable}: {shown(text)} is no list of limits; write api=5,mail=2")
            return {name.strip(): int(shares) for name, _, shares in pairs}
        case _:
            return int(text) if _is_number(text) else text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _file(environ: Mapping[str, str], directory: Path) -> SettingsSource:
    named = environ.get(_CONFIG_VARIABLE)
    path = directory / (named or CONFIG_FILE)
    if named is None and not path.is_file():
        return SettingsSource({}, lambda _: "")
    shown_path = named or CONFIG_FILE
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{_CONFIG_VARIABLE}: {shown_path} cannot be read: {why}") from error
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{shown_path}: this is no TOML: {error}") from error

    def called(key: str) -> str:
        found = re.search(rf"^\s*\[?\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]", text, re.MULTILINE)
        line = f":{text.count(chr(10), 0, found.end()) + 1}" if found else ""
        return f"{shown_path}{line}: "

    if "jobs" in table:
        raise ConfigError(f"{called('jobs')}jobs: stand in a job file of their own, not among the settings")
    return SettingsSource(_known(table, called), called)


def _known(given: Mapping[str, object], called: Callable[[str], str]) -> Mapping[str, object]:
    try:
        return check_keys("settings", given, SETTING_KEYS)
    except ConfigError as error:
        raise ConfigError(f"{called(str(error).partition(':')[0])}{error}") from error
