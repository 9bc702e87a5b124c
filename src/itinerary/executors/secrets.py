"""Secrets by reference: a definition has `{"secret": "NAME"}`, and the value is looked up at the last moment (Q7).

A value is never in a definition, and so never in the store, on a page or in a log. Errors name the reference and the
remedy, never the value. By default `{"secret": "API_TOKEN"}` is the node's environment variable
ITINERARY_SECRET_API_TOKEN, or the file that ITINERARY_SECRET_API_TOKEN_FILE names (`secret_files`). Commands inherit no
such variable. A command gets only the secrets in its own `env`.
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

SECRET_PREFIX: Final = "ITINERARY_SECRET_"  # noqa: S105 - the prefix of variable names, not a secret
FILE_SUFFIX: Final = "_FILE"
"""The suffix of a variable that names the file of a secret."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


class Secret(msgspec.Struct, frozen=True):
    """A reference to a secret."""

    name: str


Value: TypeAlias = str | Secret
"""Plain text, or a reference to a secret text."""

SecretResolver: TypeAlias = Callable[[str], str]
"""A function from a name to the value. Raises ConfigError or LookupError if there is no such secret."""


def environment_secret(name: str) -> str:
    """Return a secret from the node's environment, or from the file that the environment names.

    This may read a file, so a coroutine must call it in a thread.

    Raises:
        ConfigError: If the secret is missing, or cannot be read.
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
    """Read text, or `{"secret": "NAME"}`. Raises ConfigError, without any value that may be a secret."""
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
    """Replace references by their values.

    Returns:
        The values as text, and the secrets among them by name, so that they can be hidden in output.
    """
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
    except Exception as error:  # noqa: BLE001 - code of another package, whose message is not safe to show
        # Neither chained nor quoted: the message of a failed resolver may contain the secret.
        raise ConfigError(f"secret {name}: cannot be resolved, {type(error).__name__}") from None
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"secret {name}: the resolver gave no text that can be passed on")
    hide(value)
    return value
