"""The worked example, as a person would run it: a folio desk with three hotels (E3, E9)."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from tests.e2e.cli.program import Program

EXAMPLE = Path(__file__).parent.parent.parent.parent / "examples/folio.py"


@pytest.mark.spec("E9")
def test_the_folio_desk_of_the_examples_works_and_its_log_can_be_looked_at(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/folio.db"
    with Program(tmp_path, "up", str(EXAMPLE), "--store", url) as node:
        node.until(lambda line: "folio.pickup" in line and "completed" in line)
        with Program(tmp_path, "records", "follow", "folio", "--json", "--store", url) as follower:
            follower.until(lambda line: "BatchAcknowledged" in line)
            follower.signal(signal.SIGINT)
            follower.end()
        with Program(tmp_path, "records", "show", "folio", "--json", "--store", url) as looker:
            assert looker.end() == 0
            partitions = msgspec.json.decode(looker.output[0])
            assert {one["partition"] for one in partitions} <= {"lisbon", "tokyo", "honolulu"}
            assert any(one["holder"] for one in partitions)
        node.signal(signal.SIGTERM)
        assert node.end() == 0, node.errors
    with Program(tmp_path, "audit", "--store", url) as audit:
        assert audit.end() == 0
