"""Which signals a node takes for itself, and where it leaves them alone (R9, U13)."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from itinerary import Itinerary
from itinerary.api.running_node import RunningNode
from itinerary.node import shutdown_signals as signals

OURS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Itinerary:
    monkeypatch.chdir(tmp_path)
    return Itinerary(store="memory:")


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in OURS]


@pytest.mark.spec("U13", "embedded")
def test_an_embedded_node_leaves_all_signals_to_its_program(app: Itinerary) -> None:
    before = handlers()
    with app.running():
        assert handlers() == before


@pytest.mark.spec("U13", "where signals are ours")
def test_a_node_that_blocks_has_the_signals_until_it_ends(app: Itinerary) -> None:
    before, meanwhile = handlers(), list[Any]()

    def on_ready(_: RunningNode) -> None:
        meanwhile.extend(handlers())
        signal.raise_signal(signal.SIGTERM)

    assert app.run(on_ready) == 0
    assert not set(meanwhile) & set(before)
    assert handlers() == before


@pytest.mark.spec("U13", "a system without it")
def test_where_there_is_no_such_signal_everything_else_works(app: Itinerary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "_HANGUP", None)
    before, meanwhile = handlers(), list[Any]()

    def on_ready(_: RunningNode) -> None:
        meanwhile.extend(handlers())
        signal.raise_signal(signal.SIGTERM)

    assert app.run(on_ready) == 0
    assert meanwhile[-1] == before[-1], "nobody touched it"


@pytest.mark.spec("U13", "the file")
def test_a_signal_that_comes_while_a_node_starts_is_heeded_when_it_has_started(
    app: Itinerary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "_has_terminal", lambda: False)  # whatever terminal the tests run in
    begin = app._begin

    def begun_with_news(loop: None) -> Any:
        engine = begin(loop)
        (tmp_path / "itinerary.toml").write_text("recovery_pace = 7\n", "utf-8")
        engine.reread()
        return engine

    monkeypatch.setattr(app, "_begin", begun_with_news)

    def on_ready(_: RunningNode) -> None:
        while app.configuration.settings.recovery_pace != 7:
            signal.sigtimedwait([], 0.01)
        signal.raise_signal(signal.SIGTERM)

    assert app.run(on_ready) == 0
