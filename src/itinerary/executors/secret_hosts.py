"""The hosts that may receive a secret: the setting `secret_hosts = { API = ["api.example.com"] }`.

A secret in this setting is sent only to its hosts. Any other secret is sent to the host that its task names. The rule
is checked when a task is declared, and again before a call looks up the secret. An HTTP call follows no redirect, so no
other host sees its headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.host_names import is_allowed, read_allowed
from itinerary.executors.http_definition import HttpCall
from itinerary.executors.secrets import Secret, read_value
from itinerary.model.text import shown

__all__ = ["ANY_HOST", "SecretHosts", "read_secret_hosts"]

_SECRETS_MAX: Final = 1_000
_HOSTS_MAX: Final = 1_000


class SecretHosts(msgspec.Struct, frozen=True):
    """The hosts of each restricted secret: `name`, or `name:port`."""

    hosts: Mapping[str, frozenset[str]] = {}

    def check(self, call: HttpCall) -> None:
        """Raise ConfigError if a call would send a restricted secret to another host."""
        for header, value in call.headers.items():
            if not isinstance(value, Secret) or (allowed := self.hosts.get(value.name)) is None:
                continue
            if not is_allowed(call.host, call.port, allowed):
                where = ", ".join(sorted(allowed)) or "no host"
                raise ConfigError(
                    f"headers.{header}: secret {value.name} may be sent to {where}, and not to "
                    f"{call.host}:{call.port}; correct the address, or add the host to secret_hosts in the settings"
                )


ANY_HOST: Final = SecretHosts()
"""No secret is restricted."""


def read_secret_hosts(given: object) -> dict[str, tuple[str, ...]]:
    """Read the setting. Raises ConfigError, which begins with `secret_hosts`."""
    key = "secret_hosts"
    if not isinstance(given, Mapping) or len(given) > _SECRETS_MAX:
        raise ConfigError(
            f"{key}: {shown(given)} is not a table of at most {_SECRETS_MAX} secrets; "
            'write { API = ["api.example.com"] }'
        )
    found = {}
    for name, hosts in given.items():
        read_value(f"{key}.{name}", {"secret": name})
        if not isinstance(hosts, list | tuple) or len(hosts) > _HOSTS_MAX:
            raise ConfigError(f"{key}.{name}: {shown(hosts)} is not a list of at most {_HOSTS_MAX} hosts")
        try:
            found[str(name)] = tuple(sorted(read_allowed(hosts)))
        except ConfigError as error:
            raise ConfigError(f"{key}.{name}: {error}") from error
    return found
