"""Options that several commands share: the store, and the handling of errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import parse_qsl

import click
from msgspec.structs import replace

from itinerary.cli.commands import Option
from itinerary.cli.output import lines
from itinerary.cli.store_option import Store
from itinerary.config.configuration import Configuration, read_configuration
from itinerary.errors import ItineraryError
from itinerary.masking import without_hidden
from itinerary.node.shutdown_signals import EXIT_ERROR

__all__ = ["AsJson", "Store", "configured", "errors_told", "store_url"]

_PATIENCE: Final = 10
"""The seconds for which a command retries a server that does not answer. A node retries for a minute, and then
continues."""

AsJson = Annotated[bool, Option("--json", help="Print JSON.")]


def store_url(given: str | None) -> str:
    """Return the address of the store: the option, else the environment, else itinerary.toml, else the default."""
    return configured(given).store


def configured(store: str | None) -> Configuration:
    """Return the configuration of a command: that of a node, with a shorter wait for a server that does not answer."""
    found = read_configuration({"store": store}, os.environ, Path.cwd())
    return replace(found, store=_impatient(found.store))


def _impatient(url: str) -> str:
    address, _, options = url.partition("?")
    if not address.startswith("postgres") or "patience" in dict(parse_qsl(options, keep_blank_values=True)):
        return url
    return f"{address}?{options}{'&' if options else ''}patience={_PATIENCE}"


@contextmanager
def errors_told() -> Iterator[None]:
    """Print errors of the environment in one line. Bugs of ours keep their traceback."""
    try:
        yield
    except ItineraryError as error:
        for line in lines(without_hidden(f"itinerary: {error}")):
            click.echo(line, err=True)
        raise click.exceptions.Exit(EXIT_ERROR) from error
