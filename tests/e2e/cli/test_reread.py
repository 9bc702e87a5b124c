"""SIGHUP on a real node: settings that can change live do, the rest says that it needs a restart (U13)."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import itinerary
from itinerary.audit import audit_store
from itinerary.stores import open_store
from tests.e2e.cli.program import PATIENCE, Program
from tests.e2e.cli.test_up import STORE, TICKING

CROWDED = """
import asyncio
from itinerary import Itinerary, every

app = Itinerary()
running = 0

@app.job(every("1s"), overlap="allow")
async def crowd(ctx):
    global running
    running += 1
    ctx.log.info("crowd", running=running)
    await asyncio.sleep(2.5)
    running -= 1
"""


def read_again(program: Program, toml: Path, text: str, event: str) -> dict[str, Any]:
    """Change the file, send the signal, and wait for what is said of it."""
    toml.write_text(text, "utf-8")
    program.signal(signal.SIGHUP)
    line: dict[str, Any] = json.loads(program.until(lambda line: f'"{event}"' in line))
    return line


def is_clean(directory: Path) -> bool:
    async def audited() -> bool:
        async with open_store(f"sqlite:///{directory}/runs.db") as store:
            return (await audit_store(store)).is_clean

    return asyncio.run(audited())


@pytest.mark.spec("U13", "live")
@pytest.mark.spec("U13", "a restart is needed")
@pytest.mark.spec("U13", "a mistake")
def test_a_node_takes_over_what_can_change_live_and_names_the_rest(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CROWDED, "utf-8")
    toml = tmp_path / "itinerary.toml"
    toml.write_text("max_concurrent_jobs = 1\n", "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", STORE, "--log", "json", "--quiet") as program:
        program.until(lambda line: '"crowd"' in line)
        line = read_again(program, toml, "max_concurrent_jobs = 0\n", "settings.not_reread")
        assert line["error"].startswith("itinerary.toml:1: max_concurrent_jobs: 0 is out of range")
        program.until(lambda line: '"crowd"' in line)
        assert not any('"running": 2' in line for line in program.errors), "it has one slot"
        line = read_again(program, toml, "max_concurrent_jobs = 9\ngrace_period = '1h'\n", "settings.reread")
        assert line["max_concurrent_jobs"] == "1 -> 9"
        line = json.loads(program.until(lambda line: "settings.need_restart" in line))
        assert line["settings"] == "grace_period"
        program.until(lambda line: '"running": 2' in line)
        program.signal(signal.SIGTERM)
        assert program.end() == 0
    assert is_clean(tmp_path)


def until_completed(read: Callable[[], bytes]) -> None:
    """Wait until something has completed, by what there is to be read."""
    seen, until = b"", time.monotonic() + PATIENCE
    while b"completed" not in seen:
        assert time.monotonic() < until, seen
        try:
            seen += read()
        except FileNotFoundError:
            seen = b""
        time.sleep(0.05)  # a file does not say that it grows


IN_TERMINAL = "import os, signal, sys; os.login_tty(int(sys.argv[1])); "
AS_NOHUP = """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
out = os.open("nohup.out", os.O_WRONLY | os.O_CREAT, 0o600)
os.dup2(out, 1), os.dup2(out, 2)
"""


@pytest.mark.spec("U13", "a terminal that is gone")
@pytest.mark.parametrize("stays", [False, True], ids=["plain", "nohup"])
def test_a_node_whose_terminal_is_gone_ends_gracefully_unless_it_was_told_to_stay(tmp_path: Path, stays: bool) -> None:
    (tmp_path / "app.py").write_text(TICKING, "utf-8")
    terminal, its_end = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ITINERARY_")}
    environment["PYTHONPATH"] = str(Path(itinerary.__file__).parent.parent)
    script = IN_TERMINAL + (AS_NOHUP if stays else "") + "os.execv(sys.executable, sys.argv[2:])"
    arguments = [sys.executable, "-m", "itinerary", "up", "app.py", "--no-web", "--store", STORE]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", script, str(its_end), *arguments], cwd=tmp_path, env=environment, pass_fds=[its_end]
    ) as process:
        try:
            os.close(its_end)
            until_completed(lambda: (tmp_path / "nohup.out").read_bytes() if stays else os.read(terminal, 1_000))
            os.close(terminal)
            if stays:
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(2.0)  # nothing but real time shows that it goes on
                process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert is_clean(tmp_path)
