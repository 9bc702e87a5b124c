"""`itinerary audit` as people run it: beside a node, and on a file that was damaged (U6)."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from itinerary.audit import AuditResult
from tests.e2e.cli.program import Program

TICKING = """
from itinerary import Itinerary, every

app = Itinerary()

@app.job(every("1s"))
async def tick():
    pass
"""


@contextmanager
def node(directory: Path, url: str, ticks: int = 1) -> Iterator[None]:
    """A node that has run something, so many seconds of it, and is ended afterwards."""
    (directory / "app.py").write_text(TICKING, "utf-8")
    with Program(directory, "up", "app.py", "--store", url) as program:
        for _ in range(ticks):
            program.until(lambda line: "completed" in line)
        yield
        program.signal(signal.SIGTERM)
        assert program.end() == 0


def audited(directory: Path, url: str, *options: str) -> tuple[int, list[str]]:
    with Program(directory, "audit", "--store", url, *options) as program:
        return program.end(), program.output


@pytest.mark.spec("U6", "the command")
def test_a_store_is_audited_beside_a_node_and_what_is_lost_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with node(tmp_path, url, ticks=5):
        pass
    with node(tmp_path, url):  # its start has decided everything up to `takeover_after` before
        code, output = audited(tmp_path, url, "--json")
        found = msgspec.json.decode(output[0], type=AuditResult)
        assert (code, found.findings) == (0, ())
        assert found.matched == found.expected > 0
        code, output = audited(tmp_path, url, "--until", "2100-01-01T00:00:00Z")
        assert code == 4, "a part of the window is not decided yet"
        assert any(line.startswith("  not looked at: ") for line in output), output
    with sqlite3.connect(tmp_path / "store.db") as connection:
        ((second,),) = connection.execute(
            "DELETE FROM itinerary_occurrences WHERE ref = (SELECT min(ref) FROM itinerary_occurrences WHERE "
            "status = 'completed') RETURNING instant / 1000000"
        ).fetchall()
    connection.close()
    code, output = audited(tmp_path, url)
    assert code == 1
    assert " 1 lost, 0 doubled, 0 unexpected, 0 unknown; " in output[0]
    done = re.fullmatch(r"  \d+ completed,(?: (\d+) skipped,)? 1 lost; not run: (\d+)", output[1])
    assert done is not None, output[1]
    assert int(done[2]) == 1 + int(done[1] or 0)  # a busy machine may still run one when the next is due
    assert output[2].startswith(f"  tick:{second} (20")
    assert output[2].endswith("Z) is lost: nothing was decided about it")
