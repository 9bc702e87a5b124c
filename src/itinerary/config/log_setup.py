"""Set up logging (U9): event names with fields, for people or as JSON, to standard error.

The command line and `app.run()` call `configure_logging`, unless the program has set structlog up by itself. An
embedded node does not change a program's logging: it logs to the standard logger `itinerary`, or to structlog if the
program has configured that.

The values of secrets (`ITINERARY_SECRET_…`) and the password of the store are removed from every field
(`itinerary.masking`). A large field is shown in part (`log_limits`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final, Literal, TextIO

import structlog

from itinerary.config.log_limits import FieldsBounded, exception_shown
from itinerary.executors.secrets import FILE_SUFFIX, SECRET_PREFIX
from itinerary.masking import HIDDEN_MIN, hidden_values, without_hidden

__all__ = ["LogStyle", "SecretsHidden", "configure_logging", "engine_log"]

LogStyle = Literal["human", "json"]

_PASSWORD: Final = "PGPASSWORD"  # noqa: S105 - the name of a variable, not a password


class SecretsHidden:
    """A processor that removes secrets from an event: those of the environment, and values that were hidden later."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._own = {value for name, value in environ.items() if _is_secret(name) and len(value) >= HIDDEN_MIN}
        self._others: tuple[str, ...] = ()
        self._all = sorted(self._own, key=len, reverse=True)

    @property
    def _values(self) -> list[str]:
        """The secret values, longest first."""
        if (others := hidden_values()) is not self._others:
            self._others = others
            self._all = sorted(self._own.union(others), key=len, reverse=True)
        return self._all

    @property
    def longest(self) -> int:
        """The length of the longest secret."""
        return len(self._values[0]) if self._values else 0

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG002 - structlog's arguments
        return {key: self._hidden(value) for key, value in event.items()}

    def hidden(self, text: str) -> str:
        """Return a text without the values of secrets."""
        return without_hidden(text, self._values)

    def _hidden(self, value: Any) -> Any:
        match value:
            case str():
                return self.hidden(value)
            case Mapping():
                return {key: self._hidden(item) for key, item in value.items()}
            case list() | tuple():
                return [self._hidden(item) for item in value]
            case _:
                return value


def _is_secret(variable: str) -> bool:
    """True if the value of an environment variable is a secret. The path of a secret's file is not."""
    return variable == _PASSWORD or (variable.startswith(SECRET_PREFIX) and not variable.endswith(FILE_SUFFIX))


def configure_logging(
    style: LogStyle = "human", *, level: int = logging.INFO, stream: TextIO | None = None, colors: bool | None = None
) -> None:
    """Set structlog up for a program that is a node: one line per event, to standard error.

    Messages of the PostgreSQL driver about lost connections are suppressed: the store logs what they mean.
    """
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    stream = sys.stderr if stream is None else stream
    colors = stream.isatty() if colors is None else colors
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    secrets = SecretsHidden(os.environ)
    processors += [structlog.processors.ExceptionRenderer(exception_shown), FieldsBounded(secrets), secrets]
    match style:
        case "json":
            processors.append(structlog.processors.JSONRenderer(default=str))
        case "human":
            processors.append(_instants_shown)
            processors.append(structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0))
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def _instants_shown(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ARG001 - structlog's arguments
    """Render instants for people, and not as Python does: tasks mostly log instants of their context."""
    return {key: str(value) if isinstance(value, datetime) else value for key, value in event.items()}


def engine_log(level: int | None = None) -> Any:
    """Return the log of a node: the program's structlog if configured, else the logger `itinerary`.

    `level` suppresses lower levels: a terminal that shows occurrences need not show each rebuilt index.
    """
    if structlog.is_configured():
        if level is None:
            return structlog.get_logger()
        return structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger(level))
    secrets = SecretsHidden(os.environ)
    return structlog.wrap_logger(
        logging.getLogger("itinerary"),
        processors=[structlog.stdlib.filter_by_level, FieldsBounded(secrets), secrets, _as_text],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _as_text(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:  # noqa: ARG001 - structlog's arguments
    return " ".join([str(event.pop("event", "")), *(f"{key}={value!r}" for key, value in event.items())])
