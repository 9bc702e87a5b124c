"""The terminal of a page: the commands of its `console` blocks are run, and what they print is compared.

    $ itinerary check jobs.toml                    in this process, on 80 columns
    $ itinerary up jobs.toml > up.log 2>&1 &       a node in a process of its own, until `kill` or the end of the page
    $ kill -INT %1                                 a real signal to the first node; it must end with exit code 0
    $ sed -i 's/a/b/' jobs.toml                    a program of the system, from the list below, by /bin/sh

`...` stands for anything, and lines may break elsewhere. Any other command is a complaint, so that none escapes.
"""

from __future__ import annotations

import doctest
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Self

from click.testing import CliRunner

from itinerary.cli.main import app as command_line

if TYPE_CHECKING:
    from tests.docs.pages import Block, Page

__all__ = ["Terminal", "is_terminal"]

_COMMAND: Final = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_KILL: Final = re.compile(r"kill (?:-(INT|TERM) )?%(\d+)")
_PROGRAMS: Final = frozenset({"cat", "diff", "grep", "head", "mkdir", "sed", "tail"})
_STARTED: Final = "Itinerary node"
"""What a node says when it has started."""
_COLUMNS: Final = "80"
_PATIENCE: Final = 300.0
_FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_terminal(block: Block) -> bool:
    """True if a block shows commands with what they print."""
    return block.language == "console" and block.source.startswith("$ ")


class Terminal:
    """A terminal in the current directory. Nodes that still run at its end are asked to end."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.end(signal.SIGTERM)

    def complaints(self, page: Page, block: Block) -> list[str]:
        """Run the commands of a block. Return what they print otherwise than the page says."""
        found = []
        for command in _COMMAND.finditer(block.source):
            printed = self._run(command[1])
            if not doctest.OutputChecker().check_output(command[2], printed, _FLAGS):
                found.append(f"{page}:{block.line}: `{command[1]}` printed:\n{printed}and not:\n{command[2]}\n")
        return found

    def _run(self, command: str) -> str:
        """Run one command, and return what it prints."""
        if (killed := _KILL.fullmatch(command)) is not None:
            code = self._nodes[int(killed[2]) - 1].end(signal.Signals[f"SIG{killed[1] or 'TERM'}"])
            return "" if code == 0 else f"the node ended with exit code {code}\n"
        words = shlex.split(command)
        match words:
            case ["itinerary", *given, "&"]:
                self._nodes.append(_Node(given))
                return ""
            case ["itinerary", *given]:
                return CliRunner(env={"COLUMNS": _COLUMNS}).invoke(command_line, given).output
            case [program, *_] if program in _PROGRAMS:
                shell = ["/bin/sh", "-c", command]
                ended = subprocess.run(  # noqa: S603 - a command of our own pages, of a program in the list
                    shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE, check=False
                )
                return ended.stdout
            case _:
                return "(no test runs this command)\n"


class _Node:
    """A node in a process of its own. What it prints goes to a file if the command names one: `> up.log 2>&1`."""

    def __init__(self, words: list[str]) -> None:
        at = words.index(">") if ">" in words else len(words)
        self._file = Path(words[at + 1]) if at < len(words) else None
        self._process = subprocess.Popen(  # noqa: S603 - ours
            [sys.executable, "-m", "itinerary", *words[:at]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._printed: list[str] = []
        self._news: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._wait_for_its_start()

    def _read(self) -> None:
        assert self._process.stdout is not None, "it has a pipe"
        with self._process.stdout:
            for line in self._process.stdout:
                self._printed.append(line)
                self._news.put(line)
        self._news.put("")

    def _wait_for_its_start(self) -> None:
        try:
            while _STARTED not in (line := self._news.get(timeout=_PATIENCE)):
                assert line, f"it has not started: {''.join(self._printed)}"
        except (AssertionError, Empty):
            self._process.kill()
            self._process.wait(_PATIENCE)
            raise

    def end(self, number: signal.Signals) -> int:
        """Send a signal, unless it has ended, and return its exit code. Its file is then complete."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        self._reader.join(_PATIENCE)
        if self._file is not None:
            self._file.write_text("".join(self._printed), "utf-8")
        return code
