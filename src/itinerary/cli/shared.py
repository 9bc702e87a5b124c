"""What several commands share: where the store is, instants as they are typed, and how errors are told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from itinerary.app.signals import EXIT_ERROR
from itinerary.app.sources import read_configuration
from itinerary.cli.output import lines
from itinerary.errors import ConfigError, ItineraryError, WindowError
from itinerary.schedules.instants import microseconds_of

__all__ = ["AsJson", "Store", "errors_told", "instant_of", "store_url"]

Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Where everything is kept: sqlite:///file.db, postgresql://…"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def store_url(given: str | None) -> str:
    """The store that is meant: the option, else the environment, else itinerary.toml, else the default."""
    return read_configuration({"store": given}, os.environ, Path.cwd()).store


def instant_of(option: str, text: str) -> int:
    """An instant as somebody typed it, in microseconds."""
    try:
        return microseconds_of(datetime.fromisoformat(text))
    except (ValueError, WindowError) as error:
        raise ConfigError(f"{option} {text}: {error}; write 2026-03-01T00:00:00Z, or with another offset") from error


@contextmanager
def errors_told() -> Iterator[None]:
    """Errors about the world are told in a line; our own bugs keep their traceback."""
    try:
        yield
    except ItineraryError as error:
        for line in lines(f"itinerary: {error}"):
            typer.echo(line, err=True)
        raise typer.Exit(EXIT_ERROR) from error
