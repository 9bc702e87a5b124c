"""Every event that the program logs, found in its source: its name, how loud it is, and its fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs.pages import ROOT

__all__ = ["Logged", "logged"]

_LEVELS: Final = ("debug", "info", "warning", "error", "exception")
_NAMED: Final = {"run", "occurrence"}
"""What `named(course)` stands for."""
_OF_A_RUN: Final = frozenset(
    {"attempt", "count", "delay", "duration", "error", "job", "kind", "node", "occurrence", "run", "why"}
)
"""What `run_fields(end)` stands for."""


class Logged(NamedTuple):
    """One event, from everywhere that it is logged."""

    levels: set[str]
    fields: set[str]


def logged(source: Path = ROOT / "src/itinerary") -> dict[str, Logged]:
    """All of them, by name."""
    found: dict[str, Logged] = {}
    for path in sorted(source.rglob("*.py")):
        for name, level, fields in _in(ast.parse(path.read_text("utf-8"))):
            known = found.setdefault(name, Logged(set(), set()))
            known.levels.add(level)
            known.fields.update(fields)
    return found


def _in(tree: ast.AST) -> Iterator[tuple[str, str, set[str]]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(attr=level), [ast.Constant(str(name)), *_]) if level in _LEVELS:
                yield name, level.replace("exception", "error"), _fields(node)
            case ast.Call(ast.Attribute(attr="log"), [ast.Attribute(attr=level), ast.Constant(str(name)), *_]):
                yield name, level.lower(), _fields(node)
            case _:
                pass


def _fields(call: ast.Call) -> set[str]:
    found: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg is not None:
            found.add(keyword.arg)
        elif "named(" in ast.unparse(keyword.value):
            found |= _NAMED
        elif "run_fields(" in ast.unparse(keyword.value):
            found |= _OF_A_RUN
        else:
            found.add("…")
    return found
