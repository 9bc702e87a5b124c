"""The password of the store in a real cluster of commands and a node: no output of any of them shows it (Q7)."""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.e2e.cli.program import PATIENCE, Program
from tests.servers import PostgresServer, postgres_server  # noqa: F401 - a fixture

OPEN_SESAME = "Sesame-open-71"
APP = """
from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1s"))
def failing(ctx):
    ctx.log.warning("it is told", store=app.configuration.store)
    raise ValueError(f"{app.configuration.store} in {app.configuration!r}")
"""
COMMANDS = (
    ["jobs"],
    ["show", "failing", "--last"],
    ["show", "failing", "--json"],
    ["history", "failing", "--json"],
    ["explain", "failing"],
    ["doctor"],
)
PAGES = ("/", "/jobs", "/jobs/failing", "/health", "/timeline", "/audit", "/not-there")


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:  # noqa: F811 - the fixture
    """The address of a store, with a password that the server does not ask for."""
    with postgres_server.database() as address:
        parts = urlsplit(address)
        user = parts.username or "postgres"
        place = parts.netloc.rpartition("@")[2]
        yield urlunsplit(parts._replace(netloc=f"{user}:{OPEN_SESAME}@{place}"))


def answer_of(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE) as response:  # noqa: S310 - our own node
            return str(response.read(), "utf-8")
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read(), "utf-8")


@pytest.mark.spec("Q7", "the password of the store")
def test_no_command_no_log_and_no_page_shows_the_password_of_the_store(tmp_path: Path, url: str) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    env = {"ITINERARY_STORE": url}
    with Program(tmp_path, "up", "app.py", "--log", "json", "-v", web="127.0.0.1:0", env=env) as node:
        at = re.search(r"http://127\.0\.0\.1:\d+", node.until(lambda line: "http://127.0.0.1" in line))
        assert at is not None, node.output
        node.until(lambda line: "failing" in line and "failed" in line)
        texts = {page: answer_of(at[0] + page) for page in PAGES}
        texts["api"] = answer_of(f"{at[0]}/api/v1/jobs/failing")
        for arguments in COMMANDS:
            with Program(tmp_path, *arguments, env=env) as command:
                command.end()
            texts[" ".join(arguments)] = "\n".join([*command.output, *command.errors])
        node.signal(signal.SIGTERM)
        node.end()
    texts["up"] = "\n".join([*node.output, *node.errors])
    assert "ValueError" in texts["show failing --last"]
    assert json.loads(texts["show failing --json"])
    assert "it is told" in texts["up"]
    assert {name for name, text in texts.items() if OPEN_SESAME in text or not text} == set()


@pytest.mark.spec("Q7", "the password of the store")
def test_a_password_on_the_command_line_is_warned_about_and_leaves_the_list_of_processes(
    tmp_path: Path, url: str
) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with Program(tmp_path, "up", "app.py", "--store", url) as node:
        node.until(lambda line: "Ctrl-C" in line)
        arguments = Path(f"/proc/{node.process.pid}/cmdline").read_bytes()
        node.signal(signal.SIGTERM)
        node.end()
    assert b"--store\0postgresql://" in arguments
    assert OPEN_SESAME.encode() not in arguments
    assert OPEN_SESAME not in "\n".join([*node.output, *node.errors])
    (warning,) = [line for line in node.errors if "--store has a password" in line]
    assert "set ITINERARY_STORE instead, or `store` in itinerary.toml" in warning


@pytest.mark.spec("Q7", "the password of the store")
@pytest.mark.parametrize(
    ("source", "arguments"),
    [
        (APP, ["jobs", "--store", f"postgresql://bob:{OPEN_SESAME}@127.0.0.1:1/x?patience=0"]),
        (APP, ["jobs", "--store", f"postgresql://bob:{OPEN_SESAME}@127.0.0.1:1/x?connections=many"]),
        (APP, ["jobs", "--store", f"oracle://bob:{OPEN_SESAME}@127.0.0.1:1/x"]),
        (
            f"from itinerary import Itinerary\nItinerary(store='postgresql://bob:{OPEN_SESAME}@db', a=1)",
            ["check", "app.py"],
        ),
        (f"raise KeyError('postgresql://bob:{OPEN_SESAME}@db/x')", ["check", "app.py"]),
    ],
    ids=["no server", "a wrong option", "a wrong kind", "a wrong argument", "an error of the app"],
)
def test_no_error_shows_the_password_of_the_store(tmp_path: Path, source: str, arguments: list[str]) -> None:
    (tmp_path / "app.py").write_text(source, "utf-8")
    with Program(tmp_path, *arguments) as command:
        assert command.end() == 1
    told = "\n".join([*command.output, *command.errors])
    assert "itinerary: " in told
    assert OPEN_SESAME not in told
