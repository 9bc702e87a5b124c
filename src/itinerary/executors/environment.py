"""The environment of the processes that a node starts, without the variables of the node itself.

    inherited      every variable of the node's process except `ITINERARY_…` and `PG…`
    added          the `env` of a task, and variables that the node sets for a task

The node's own variables hold the password of its store and the values of its secrets. A command, or a function in a
worker process, needs neither. A task that needs one of them names it in its own `env`.

A worker process imports the program that declares the jobs. That program may check its jobs against settings of the
node (`ITINERARY_LIMITS`). A worker therefore gets the settings that hold no secret, and only during the import.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from itinerary.model.settings import Settings

__all__ = ["import_variables", "inherited_variables", "variables_set"]

_NODE_PREFIXES: Final = ("ITINERARY_", "PG")
"""The prefixes of a node's variables: its settings and secrets, and the variables of libpq."""
_IMPORT_VARIABLES: Final = frozenset(
    f"ITINERARY_{key.upper()}" for key in ("config", "name", "timezone", *Settings.__struct_fields__)
)
"""Settings that a program may need during its import. None of them holds a secret."""


def inherited_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process of a task inherits from its node."""
    return {name: value for name, value in environ.items() if not name.startswith(_NODE_PREFIXES)}


def import_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker process has while it imports the code of a task."""
    return {name: value for name, value in environ.items() if name in _IMPORT_VARIABLES}


@contextmanager
def variables_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
