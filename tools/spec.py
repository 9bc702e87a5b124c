"""Which statements of docs/requirements.md do tests name, and which does nothing prove yet?

A test names what it proves: `@pytest.mark.spec("S4")`, with a part where it proves only that: `spec("S1", "steps")`.
Prints each statement that no test names; `--all` prints what names the others too; `--check` fails where a test names a
statement that does not exist.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
STATEMENT = re.compile(r"^- ([A-Z]\d+) (.*)")
WIDTH = 100


def statements() -> dict[str, str]:
    """Every statement's id and the beginning of its text."""
    lines = (ROOT / "docs/requirements.md").read_text("utf-8").splitlines()
    return {found[1]: found[2] for line in lines if (found := STATEMENT.match(line))}


def marks(path: Path) -> Iterator[tuple[str, str]]:
    """(statement, test) for each `spec` mark in a file, on a test, a class or the module."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                for decorator in node.decorator_list:
                    yield from ((statement, name) for statement in _named(decorator))
            case ast.Assign(targets=[ast.Name(id="pytestmark")]):
                for call in ast.walk(node.value):
                    yield from ((statement, path.stem) for statement in _named(call))
            case _:
                pass


def _named(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(func=ast.Attribute(attr="spec"), args=args):
            words = [arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            return [word for word in words if re.fullmatch(r"[A-Z]\d+", word)]
        case _:
            return []


def main() -> int:
    """Print the report; 1 if `--check` found a mark for a statement that does not exist."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="print the statements that are named, too, with their tests")
    parser.add_argument("--check", action="store_true", help="fail if a test names a statement that does not exist")
    options = parser.parse_args()

    known, named = statements(), defaultdict[str, list[str]](list)
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for statement, test in marks(path):
            named[statement].append(f"{path.relative_to(ROOT)}::{test}")
    unknown = sorted(set(named) - set(known))
    if options.check:
        for statement in unknown:
            print(f"{', '.join(named[statement])}: no statement {statement} in docs/requirements.md")
        return 1 if unknown else 0
    if options.all:
        for statement in filter(named.__contains__, known):
            print(f"{statement}: {len(named[statement])} tests", *named[statement], sep="\n    ")
    for statement in filter(lambda key: key not in named, known):
        print(f"{statement:4} {known[statement][:WIDTH]}")
    print(f"{len(known) - len(set(known) - set(named))} of {len(known)} statements are named by a test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
