"""Print the part of requirements.lock that an installation needs, with its hashes.

    python tools/locked.py --extra postgres --extra kubernetes    what Itinerary needs at run time
    python tools/locked.py --build                                what it takes to build its wheel

`requirements.lock` pins everything that the project uses, tests and documentation included. An image needs a part of
that. The lock says below each package which packages need it (`# via`), and pyproject.toml says where to begin. This
program uses only the standard library, since it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

__all__ = ["Entry", "build_roots", "needed", "read_lock", "runtime_roots"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VIA: Final = re.compile(r" +# +(?:via +)?([A-Za-z0-9][A-Za-z0-9._-]*)")


class Entry:
    """A pinned package of the lock."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.name = name_of(lines[0])
        self.lines = [line for line in lines if not line.lstrip().startswith("#")]
        self.needed_by = {name_of(found[1]) for line in lines if (found := _VIA.fullmatch(line.partition(" (")[0]))}
        self.needed_by.discard("via")

    def __str__(self) -> str:
        return "\n".join(self.lines)


def name_of(requirement: str) -> str:
    """Return the normalised name at the beginning of a requirement."""
    found = _NAME.match(requirement)
    if found is None:
        raise SystemExit(f"{requirement!r} does not begin with the name of a package")
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def read_lock(text: str) -> list[Entry]:
    """Read the entries of a lock. One package may have several, for several versions of Python."""
    entries: list[list[str]] = []
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            entries.append([])
        if entries:
            entries[-1].append(line)
    return [Entry(lines) for lines in entries]


def runtime_roots(pyproject: str, extras: Iterable[str]) -> set[str]:
    """Return the packages that the project names as its dependencies, and those of some extras."""
    project = tomllib.loads(pyproject)["project"]
    known = project["optional-dependencies"]
    wanted = list(project["dependencies"])
    for extra in extras:
        if extra not in known:
            raise SystemExit(f"pyproject.toml has no extra {extra!r}; it has {', '.join(known)}")
        wanted += known[extra]
    return {name_of(one) for one in wanted}


def build_roots(pyproject: str) -> set[str]:
    """Return the packages that build the project."""
    return {name_of(one) for one in tomllib.loads(pyproject)["build-system"]["requires"]}


def needed(entries: Sequence[Entry], roots: Iterable[str]) -> list[Entry]:
    """Return the entries of these packages and of everything that they need. Exits if the lock lacks one."""
    names = set(roots)
    if missing := names - {entry.name for entry in entries}:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}; renew it with `make lock`")
    count = 0
    while count != len(names):
        count = len(names)
        names |= {entry.name for entry in entries if entry.needed_by & names}
    return [entry for entry in entries if entry.name in names]


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="an extra of the project")
    parser.add_argument("--build", action="store_true", help="what builds the wheel, in place of what it needs")
    arguments = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    pyproject = (root / "pyproject.toml").read_text("utf-8")
    roots = build_roots(pyproject) if arguments.build else runtime_roots(pyproject, arguments.extra)
    entries = needed(read_lock((root / "requirements.lock").read_text("utf-8")), roots)
    sys.stdout.writelines(f"{entry}\n" for entry in entries)


if __name__ == "__main__":
    main()
