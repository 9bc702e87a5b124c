"""A node with its web server in a process of its own, which a bench observes from outside.

The module of a bench is that process: started with the URL of a store, it prints the port of its server as JSON. For
each line with a number of seconds that it reads, it answers with what it noted in that time. It ends with its input.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["observed", "served"]


@contextmanager
def served(module: str, url: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Run a node on a store. Yields the port of its web server, and its process."""
    arguments = [sys.executable, "-m", module, url]
    node = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    try:
        assert node.stdout is not None
        yield json.loads(node.stdout.readline())["port"], node
    finally:
        assert node.stdin is not None
        node.stdin.close()
        node.wait(60)


def observed(node: subprocess.Popen[str], observe_for: float) -> dict[str, float]:
    """Return what a node notes during the next seconds."""
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(f"{observe_for}\n")
    node.stdin.flush()
    found: dict[str, float] = json.loads(node.stdout.readline())
    return found
