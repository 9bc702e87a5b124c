"""SIGTERM to nodes with busy record handlers, on machines with nothing to spare: every one is obeyed (R9)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.integration.stores.nursery import environment
from tests.integration.stores.scale import IS_FULL, SCALE, dice

SIGNALS = 20 * SCALE if IS_FULL else 6
AT_A_TIME = 3
PATIENCE = 120.0
"""Seconds after which a signal was lost. A shutdown of these nodes is cut short after 36."""
_BUSY = Path(__file__).with_name("busy.py")


@contextmanager
def full_load() -> Iterator[None]:
    """Keep all cores busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class Nest:
    """Nodes that are started, signalled and gone, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(_BUSY)],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._pid: int | None = None

    def signalled(self, chance: random.Random) -> tuple[int, float]:
        """How a busy node ends on SIGTERM, and how long that takes."""
        requests, answers = self._pipes()
        requests.write("\n")
        word, pid = answers.readline().split()
        assert word == "busy"
        self._pid = int(pid)
        time.sleep(chance.uniform(0.0, 1.0))  # a real process, at a moment that nobody chose
        began = time.monotonic()
        os.kill(self._pid, signal.SIGTERM)
        watch = threading.Timer(PATIENCE, os.kill, (self._pid, signal.SIGKILL))
        watch.start()
        word, code = answers.readline().split()
        watch.cancel()
        self._pid = None
        assert word == "ended"
        return int(code), time.monotonic() - began

    def close(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


def _in_a_nest(number: int) -> list[tuple[int, float]]:
    nest, chance = Nest(), dice("signals", number)
    try:
        return [nest.signalled(chance) for _ in range(SIGNALS // AT_A_TIME + (number < SIGNALS % AT_A_TIME))]
    finally:
        nest.close()


@pytest.mark.spec("R9", "SIGTERM")
def test_every_sigterm_to_a_node_with_busy_handlers_is_obeyed_under_full_load() -> None:
    with full_load(), ThreadPoolExecutor(AT_A_TIME) as threads:
        ends = [end for some in threads.map(_in_a_nest, range(AT_A_TIME)) for end in some]
    assert [code for code, _ in ends] == [0] * SIGNALS
    took = sorted(took for _, took in ends)
    obeyed = f"{SIGNALS} of {SIGNALS} SIGTERMs obeyed"
    print(f"{obeyed}; the slowest took {took[-1]:.1f} s, the median {took[SIGNALS // 2]:.1f} s")
