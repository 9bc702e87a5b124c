"""Secrets by reference: a definition says `{"secret": "NAME"}`, and the value is looked up at the last moment (Q7).

A value is never in a definition, and so never in the store, on a page or in a log. Errors here name the reference and
what to do, never the value. By default `{"secret": "API_TOKEN"}` is the environment variable ITINERARY_SECRET_API_TOKEN
of the node, or the file that ITINERARY_SECRET_API_TOKEN_FILE names (`secret_files`). Commands inherit no such variable,
only what their own `env` refers to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.secret_files import read_secret_file
from itinerary.masking import hide
from itinerary.model.text import shown

__all__ = [
    "FILE_SUFFIX",
    "SECRET_PREFIX",
    "Secret",
    "SecretResolver",
    "Value",
    "environment_secret",
    "has_secrets",
    "read_value",
    "resolve_values",
]

SECRET_PREFIX: Final = "ITINERARY_SECRET_"  # noqa: S105 - the name of variables, not a secret
FILE_SUFFIX: Final = "_FILE"
"""What the variable of a secret that is in a file ends with."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


class Secret(msgspec.Struct, frozen=True):
    """A reference to a secret."""

    name: str


Value: TypeAlias = str | Secret
"""Text as it stands, or a reference to text that must not."""

SecretResolver: TypeAlias = Callable[[str], str]
"""From a name to the value. Raises ConfigError or LookupError where there is none."""


def environment_secret(name: str) -> str:
    """Look up a secret: in the node's environment, or in the file that the environment names.

    This may read a file, so a coroutine calls it in a thread.
    """
    variable = SECRET_PREFIX + name
    if name.endswith(FILE_SUFFIX):
        raise ConfigError(
            f"secret {name}: {variable} names the file of a secret; refer to {name.removesuffix(FILE_SUFFIX)} instead"
        )
    value, path = os.environ.get(variable), os.environ.get(variable + FILE_SUFFIX)
    if path is not None:
        if value is not None:
            raise ConfigError(f"secret {name}: both {variable} and {variable}{FILE_SUFFIX} are set; remove one of them")
        return read_secret_file(variable + FILE_SUFFIX, path)
    if value is None:
        raise ConfigError(
            f"secret {name}: not there; set {variable} in the environment of the node, or {variable}{FILE_SUFFIX} to "
            "the path of a file that holds it"
        )
    return value


def read_value(key: str, given: object) -> Value:
    """Text, or `{"secret": "NAME"}`. Raises ConfigError, and quotes nothing that may be a secret."""
    match given:
        case str():
            if "\0" in given:
                raise ConfigError(f"{key}: has a NUL character in it, which cannot be passed on")
            return given
        case {"secret": name, **rest} if not rest:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ConfigError(f"{key}.secret: {shown(name)} is not a name; write letters, digits and '_'")
            return Secret(name)
        case _:
            raise ConfigError(f'{key}: {shown(given)} is neither text nor a reference such as {{"secret": "NAME"}}')


def has_secrets(values: Mapping[str, Value]) -> bool:
    """True if one of the values is a reference to a secret."""
    return any(isinstance(value, Secret) for value in values.values())


def resolve_values(values: Mapping[str, Value], resolver: SecretResolver) -> tuple[dict[str, str], dict[str, str]]:
    """The values as text, and the secrets among them by their own names, so that they can be hidden."""
    resolved: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for key, value in values.items():
        if isinstance(value, Secret):
            resolved[key] = secrets[value.name] = _resolved(value.name, resolver)
        else:
            resolved[key] = value
    return resolved, secrets


def _resolved(name: str, resolver: SecretResolver) -> str:
    try:
        value = resolver(name)
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody else's code, and its own words are not to be trusted here
        # Not chained, and not quoted: what a resolver says when it fails may hold what it was about to give.
        raise ConfigError(f"secret {name}: cannot be resolved, {type(error).__name__}") from None
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"secret {name}: the resolver gave no text that can be passed on")
    hide(value)
    return value
