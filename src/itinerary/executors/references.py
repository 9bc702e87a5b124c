"""Secrets by reference: a definition says `{"secret": "NAME"}`, and the value is looked up at the last moment (Q7).

A value is never in a definition, and so never in the store, on a page or in a log. Errors here name the reference and
what to do, never the value. By default `{"secret": "API_TOKEN"}` is the environment variable ITINERARY_SECRET_API_TOKEN
of the node; commands inherit none of those, only what their own `env` refers to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from itinerary.errors import ConfigError
from itinerary.model.text import shown

__all__ = ["SECRET_PREFIX", "Secret", "SecretResolver", "Value", "environment_secret", "read_value", "resolve_values"]

SECRET_PREFIX: Final = "ITINERARY_SECRET_"  # noqa: S105 - the name of variables, not a secret

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


class Secret(msgspec.Struct, frozen=True):
    """A reference to a secret."""

    name: str


Value: TypeAlias = str | Secret
"""Text as it stands, or a reference to text that must not."""

SecretResolver: TypeAlias = Callable[[str], str]
"""From a name to the value. Raises ConfigError or LookupError where there is none."""


def environment_secret(name: str) -> str:
    """The secret of that name in the node's environment."""
    value = os.environ.get(SECRET_PREFIX + name)
    if value is None:
        raise ConfigError(f"secret {name}: not there; set {SECRET_PREFIX}{name} in the environment of the node")
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
    return value
