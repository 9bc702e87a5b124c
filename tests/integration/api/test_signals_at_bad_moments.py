"""Signals that come at bad moments, and shutdowns of which a part never ends (R9). Each is a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from itinerary.model.queries import NodesQuery
from itinerary.model.rows import NodeRow
from itinerary.stores import open_store
from tests.integration.stores.conftest import Places, places, postgres_server
from tests.integration.stores.nursery import environment
from tests.integration.stores.scale import SCALE, dice

__all__ = ["places", "postgres_server"]

PATIENCE = 60.0
"""Seconds after which something has hung."""
AS_PROCESS_1 = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]
_PROGRAM = Path(__file__).with_name("signalled.py")


class Ended(NamedTuple):
    code: int
    errors: str
    took: float
    """Seconds from the last signal on, or from the moment that the program named."""


def play(story: str, store: str, *signals: signal.Signals, until: str | None = None) -> Ended:
    """Run a story to its end. The signals are sent when it says so; `until` must be in the log before the last one."""
    command = [sys.executable, str(_PROGRAM), story, store]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            for number in signals[:-1]:
                process.send_signal(number)
                _until(process, until or "")
            for number in signals[-1:]:
                process.send_signal(number)
            began = time.monotonic()
            _, errors = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    assert said == "now\n", errors
    return Ended(process.returncode, errors, time.monotonic() - began)


def _until(process: subprocess.Popen[str], event: str) -> None:
    """Wait until a signal has been taken: its thread has a line in /proc, and the signal is pending no more."""
    ends_at = time.monotonic() + PATIENCE
    while time.monotonic() < ends_at:
        status = Path(f"/proc/{process.pid}/status").read_text("utf-8")
        if re.search(r"ShdPnd:\s*0+$", status, re.MULTILINE):
            return
        time.sleep(0.01)
    raise AssertionError("the kernel has not delivered it")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/itinerary.db"


@pytest.mark.spec("R9", "SIGTERM")
@pytest.mark.parametrize("story", ["a_node_that_runs", "a_block_that_asks", "a_block_that_is_left", "a_command"])
def test_a_signal_that_the_kernel_gives_to_another_thread_is_obeyed(story: str, store: str) -> None:
    assert play(story, store).code == 0


@pytest.mark.spec("R9", "SIGTERM")
@pytest.mark.parametrize("story", ["a_signal_before_the_engine_has_a_thread", "a_signal_before_the_engine_has_a_loop"])
def test_a_signal_in_the_first_moments_ends_the_start_gracefully(story: str, store: str) -> None:
    ended = play(story, store)
    assert ended.code == 0, ended.errors
    assert "Traceback" not in ended.errors


@pytest.mark.spec("R9", "SIGTERM")
@pytest.mark.parametrize("places", ["sqlite", "lmdb", "postgres"], indirect=True)
def test_a_signal_at_any_moment_of_a_start_ends_it_and_the_node_says_that_it_leaves(
    places: Places, tmp_path: Path
) -> None:
    url, chance, errors = places(), dice("moments of a start"), tmp_path / "errors"
    with (
        errors.open("w") as log,
        subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(Path(__file__).with_name("starting.py"))],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for _ in range(10 * SCALE):
                process.stdin.write(f"{url}\n")
                _, pid = process.stdout.readline().split()
                time.sleep(chance.uniform(0.0, 0.4))  # a real process, at a moment of its start
                os.kill(int(pid), signal.SIGTERM)
                watch = threading.Timer(PATIENCE, os.kill, (int(pid), signal.SIGKILL))
                watch.start()
                ended = process.stdout.readline()
                watch.cancel()
                assert ended == "ended 0\n", errors.read_text("utf-8")
            process.stdin.close()
        except BaseException:
            process.kill()
            raise
    assert "Traceback" not in errors.read_text("utf-8")

    async def silent() -> list[NodeRow]:
        async with open_store(url) as opened:
            return [node for node in await opened.read(NodesQuery()) if node.left_at is None]

    assert asyncio.run(silent()) == [], "each says that it leaves, so that others need not wait for its silence"


@pytest.mark.spec("R9", "a second signal")
def test_a_second_signal_ends_the_process_though_the_engine_hangs(store: str) -> None:
    ended = play("a_blocked_engine_with_time", store, signal.SIGTERM, signal.SIGTERM)
    assert ended.code == 128 + signal.SIGTERM
    assert "process.ended_by_force" in ended.errors
    assert "it got SIGTERM and SIGTERM" in ended.errors
    assert "the engine is running" in ended.errors


@pytest.mark.spec("R9", "not everything ended")
@pytest.mark.parametrize(
    ("story", "said"),
    [
        ("a_blocked_engine", "the engine's event loop has not answered for 1 s, and is in Condition.wait"),
        ("a_store_that_does_not_close", "the engine is closing the store sqlite:///"),
    ],
)
def test_a_shutdown_that_does_not_end_is_cut_short_at_its_deadline_and_says_what_still_ran(
    story: str, said: str, store: str
) -> None:
    ended = play(story, store, signal.SIGTERM)
    assert ended.code == 3, ended.errors
    assert "process.ended_by_force" in ended.errors
    assert "shutdown took longer than 6.2s" in ended.errors
    assert said in ended.errors
    assert re.search(
        r"^itinerary: process \d+ is ended by force: .* Still running: the engine is ", ended.errors, re.MULTILINE
    )
    assert ended.took >= 6.0, "nothing is cut short before its time"


@pytest.mark.spec("R9", "not everything ended")
def test_a_block_whose_node_does_not_end_is_left_at_the_deadline_with_an_error(store: str) -> None:
    command = [sys.executable, str(_PROGRAM), "a_block_whose_store_does_not_close", store]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    assert ended.returncode == 1
    assert "NodeError: the node has not ended within 6.2s" in ended.stderr
    assert "still running: the engine is closing the store" in ended.stderr


@pytest.mark.spec("R9", "not everything ended")
@pytest.mark.spec("E10")
def test_a_handler_that_never_returns_does_not_hold_up_the_end_and_is_named(store: str) -> None:
    ended = play("a_handler_that_never_returns", store, signal.SIGTERM)
    assert ended.code == 3, ended.errors
    assert re.search(r"node\.ended_unfinished.*handlers=\['folio: batch ", ended.errors)
    assert "process.ended_by_force" not in ended.errors, "it ended by itself"


@pytest.mark.spec("R9", "not everything ended")
def test_a_part_that_ignores_its_cancellation_does_not_hold_up_the_end_and_is_named(store: str) -> None:
    ended = play("a_part_that_ignores_its_cancellation", store, signal.SIGTERM)
    assert ended.code == 0, ended.errors
    assert re.search(r"engine\.tasks_left_behind.*RecordsService", ended.errors), ended.errors
    assert "process.ended_by_force" not in ended.errors, "it ended by itself"


@pytest.mark.spec("R9", "not everything ended")
def test_a_thread_of_the_program_does_not_keep_itinerary_up_from_ending(store: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import threading\nfrom itinerary import Itinerary\n"
        "app = Itinerary(shutdown_grace_period='1s', kill_grace='200ms')\n"
        "threading.Thread(target=threading.Event().wait, name='forgotten').start()\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "itinerary", "up", "app.py", "--no-web", "--store", store]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            while not process.stdout.readline().startswith("Ctrl-C"):
                assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 3, errors
    assert "thread forgotten" in errors


def _can_be_process_1() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*AS_PROCESS_1, "true"], capture_output=True, check=False).returncode == 0  # noqa: S603


@pytest.mark.spec("R9", "SIGTERM")
@pytest.mark.skipif(not _can_be_process_1(), reason="no namespace for processes can be made here")
def test_process_1_of_a_container_obeys_a_signal_while_it_loads_the_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import os, signal, threading\n"
        "assert os.getppid() == 1, 'the node is the child of process 1'\n"
        "os.kill(1, signal.SIGTERM)\n"
        "threading.Event().wait()\n",
        "utf-8",
    )
    command = [*AS_PROCESS_1, sys.executable, "-m", "itinerary", "up", "app.py", "--no-web", "--store", "memory:"]
    ended = subprocess.run(  # noqa: S603 - our own program
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
