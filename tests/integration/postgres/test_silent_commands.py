"""Commands on a server that accepts connections and answers nothing end with an error that says so."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from click.testing import CliRunner

from itinerary import Itinerary, every
from itinerary.cli.main import app as command_line
from itinerary.cli.options import store_url
from tests.proxy import Proxy

_COMMANDS = (
    ("jobs",),
    ("history", "etl"),
    ("explain", "etl"),
    ("audit",),
    ("nodes",),
    ("pause", "etl"),
    ("doctor",),
    ("migrate", "--dry-run"),
)


@pytest.fixture
def silent(url: str) -> Iterator[str]:
    """A database with a job, behind a proxy that answers nothing."""
    app = Itinerary(store=url, name="here")
    app.job("etl", every("1h")).task(len)
    with app.running():
        pass
    with Proxy(url) as proxy:
        proxy.stall()
        yield proxy.url


@pytest.mark.spec("U3", "silent")
def test_each_command_says_that_the_server_does_not_answer(silent: str) -> None:
    store = f"{silent}&connect_timeout=2&patience=0.1"
    for words in _COMMANDS:
        result = CliRunner().invoke(command_line, [*words, "--store", store])
        assert result.exit_code == 1, words
        told = " ".join(result.output.split())
        assert "could not be reached for 0.1 s" in told, words
        assert "timeout" in told, words


@pytest.mark.spec("U3", "silent")
def test_a_command_is_less_patient_than_a_node_unless_the_url_says_otherwise() -> None:
    assert store_url("postgresql://here/jobs").endswith("/jobs?patience=10")
    assert store_url("postgresql://here/jobs?schema=a").endswith("/jobs?schema=a&patience=10")
    assert store_url("postgresql://here/jobs?patience=3").endswith("/jobs?patience=3")
    assert store_url("sqlite:///jobs.db") == "sqlite:///jobs.db"


@pytest.mark.spec("U3", "silent")
def test_the_doctor_finds_that_the_server_does_not_answer(silent: str) -> None:
    arguments = ["doctor", "--store", f"{silent}&connect_timeout=2&patience=0.1", "--json"]
    result = CliRunner().invoke(command_line, arguments)
    (finding,) = msgspec.json.decode(result.stdout)["findings"]
    assert (finding["about"], finding["level"]) == ("store", "wrong")
    assert "could not be reached" in finding["words"]
