"""What several commands share: where the store is, and how errors are told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl

import typer
from msgspec.structs import replace

from itinerary.cli.output import lines
from itinerary.cli.store_option import Store
from itinerary.config.configuration import Configuration, read_configuration
from itinerary.errors import ItineraryError
from itinerary.masking import without_hidden
from itinerary.node.shutdown_signals import EXIT_ERROR

__all__ = ["AsJson", "Store", "configured", "errors_told", "store_url"]

_PATIENCE: Final = 10
"""Seconds that a command asks a server again that does not answer. A node asks for a minute, and then goes on."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def store_url(given: str | None) -> str:
    """The store that is meant: the option, else the environment, else itinerary.toml, else the default."""
    return configured(given).store


def configured(store: str | None) -> Configuration:
    """The configuration of a command: as that of a node, but it waits less long for a server that does not answer."""
    found = read_configuration({"store": store}, os.environ, Path.cwd())
    return replace(found, store=_impatient(found.store))


def _impatient(url: str) -> str:
    address, _, options = url.partition("?")
    if not address.startswith("postgres") or "patience" in dict(parse_qsl(options, keep_blank_values=True)):
        return url
    return f"{address}?{options}{'&' if options else ''}patience={_PATIENCE}"


@contextmanager
def errors_told() -> Iterator[None]:
    """Errors about the world are told in a line; our own bugs keep their traceback."""
    try:
        yield
    except ItineraryError as error:
        for line in lines(without_hidden(f"itinerary: {error}")):
            typer.echo(line, err=True)
        raise typer.Exit(EXIT_ERROR) from error
