"""The thread that obeys signals: which of them begin the deadline of a shutdown."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from itinerary.node.signal_thread import SignalThread, Stoppable

PATIENCE = 30.0


class Node:
    """A node that is told to end."""

    shutdown_timeout = 3_600_000_000

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_told = threading.Event()

    def shut_down(self, why: str) -> None:
        self.told.append(why)
        self.is_told.set()

    def abandon(self) -> None:
        raise AssertionError("one signal ends it gracefully")

    def still_running(self) -> list[str]:
        return []


@pytest.fixture
def hangups() -> list[threading.Event]:
    return [threading.Event()]


@pytest.fixture
def signals(hangups: list[threading.Event]) -> Iterator[SignalThread]:
    def hangup(_: Stoppable) -> None:
        hangups[0].set()

    thread = SignalThread(hangup, exit_code=3)
    thread.open([signal.SIGHUP, signal.SIGTERM])
    try:
        yield thread
    finally:
        thread.close()


def until_heard(signals: SignalThread) -> None:
    """Wait until the thread has the signal, and no node to pass it on to."""
    ends_at = time.monotonic() + PATIENCE
    while not signals._pending:
        assert time.monotonic() < ends_at
        threading.Event().wait(0.01)


@pytest.mark.spec("U13", "the signal")
def test_a_hangup_before_the_node_is_made_begins_no_deadline(
    signals: SignalThread, hangups: list[threading.Event]
) -> None:
    signal.raise_signal(signal.SIGHUP)
    until_heard(signals)
    signals.attach(Node(), log=None)
    assert hangups[0].wait(PATIENCE), "the settings are read again"
    assert math.isinf(signals._ends_at())


@pytest.mark.spec("R9", "SIGTERM")
def test_a_request_to_end_before_the_node_is_made_is_obeyed_and_begins_the_deadline(signals: SignalThread) -> None:
    node = Node()
    signal.raise_signal(signal.SIGTERM)
    until_heard(signals)
    signals.attach(node, log=None)
    assert node.is_told.wait(PATIENCE)
    assert node.told == ["it got SIGTERM"]
    assert not math.isinf(signals._ends_at())


@pytest.mark.spec("R9", "children")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_signal_to_a_forked_child_ends_the_child_and_not_the_node(signals: SignalThread) -> None:
    node = Node()
    signals.attach(node, None)
    is_up, tells = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tells, b"1")
        time.sleep(PATIENCE)
        os._exit(7)
    try:
        assert os.read(is_up, 1) == b"1"
        os.kill(child, signal.SIGTERM)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(is_up)
        os.close(tells)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGTERM
    assert node.told == []
    os.kill(os.getpid(), signal.SIGTERM)
    assert node.is_told.wait(PATIENCE), "its own signals still reach the node"
    assert node.told == ["it got SIGTERM"]
