"""The same commands in a terminal of 60 columns, without colour, and in a pipe, as processes (U3)."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import itinerary
from tests.e2e.cli.program import PATIENCE, Program

APP = """
from itinerary import Itinerary, cron, every

app = Itinerary()
app.job("nightly_report_of_everything", cron("0 5 * * 1-5", tz="America/New_York")).shell("work", ["true"])
app.job("tick", every("1s")).shell("work", ["printf", "\\\\033[31mred\\\\n"])
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


def on_a_terminal(directory: Path, *arguments: str, **environment: str) -> str:
    """What a terminal of 60 columns gets from `itinerary …`."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("ITINERARY_") and key not in {"NO_COLOR", "COLUMNS", "FORCE_COLOR"}
    }
    source = str(Path(itinerary.__file__).parent.parent)
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "itinerary", *arguments],
        cwd=directory,
        env={**kept, "PYTHONPATH": source, "TERM": "xterm", **environment},
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    output = b""
    try:
        while True:
            try:
                piece = os.read(outer, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            output += piece
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE)
        os.close(outer)
    return output.decode()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a node has run for a moment, and a task has tried to colour its output."""
    place = tmp_path_factory.mktemp("terminal")
    (place / "app.py").write_text(APP, "utf-8")
    with Program(place, "up", "app.py") as node:
        node.until(lambda line: "tick" in line and "completed" in line)
    return place


@pytest.mark.spec("U3", "60 columns, 120 columns, a pipe")
@pytest.mark.parametrize("command", ["jobs", "show tick", "history tick --limit 5", "upcoming", "nodes", "doctor"])
def test_no_line_is_wider_than_a_terminal_of_60_columns(directory: Path, command: str) -> None:
    shown = on_a_terminal(directory, *command.split())
    assert "Traceback" not in shown
    for line in ESCAPES.sub("", shown).splitlines():
        assert len(line) <= 60, line


@pytest.mark.spec("U3", "no colour")
def test_a_terminal_has_colours_and_neither_a_pipe_nor_who_wants_none(directory: Path) -> None:
    assert COLOURS.search(on_a_terminal(directory, "jobs"))
    assert not COLOURS.search(on_a_terminal(directory, "jobs", NO_COLOR="1"))
    with Program(directory, "jobs") as program:
        assert program.end() == 0
    assert "\x1b" not in "\n".join(program.output)
    assert len(program.output) == 3, "a heading, and a line for each job"


@pytest.mark.spec("Q7", "output is text and never control")
def test_what_a_task_has_printed_cannot_colour_a_terminal(directory: Path) -> None:
    with Program(directory, "history", "tick", "--state", "completed", "--limit", "1", "--json") as program:
        program.end()
    found = re.search(r'"run":"(tick:\d+)"', program.output[0])
    assert found is not None
    shown = on_a_terminal(directory, "show", found[1], NO_COLOR="1")
    assert "[31mred" in shown
    assert "\x1b[31m" not in shown


@pytest.mark.spec("U3", "no colour")
@pytest.mark.parametrize("command", ["jobs", "upcoming", "history tick", "doctor"])
def test_a_terminal_that_has_only_ascii_is_drawn_for_with_that(directory: Path, command: str) -> None:
    shown = on_a_terminal(directory, *command.split(), PYTHONIOENCODING="ascii")
    assert shown.isascii()
    assert "Traceback" not in shown


@pytest.mark.spec("U3", "progress")
def test_a_bar_is_shown_on_a_terminal_and_gone_in_the_end(directory: Path) -> None:
    shown = on_a_terminal(directory, "prune")
    assert "pruning" in shown
    assert "removed 0 occurrences" in shown.rpartition("\x1b[2K")[2], "and what came of it stands in its place"
    with Program(directory, "prune") as program:
        assert program.end() == 0
    assert program.errors == []
