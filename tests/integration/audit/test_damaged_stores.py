"""An audit of SQLite files that were damaged by hand: each kind of damage is named, and a good file passes (U6)."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from itinerary.audit import AuditProgress, AuditResult, Check, audit_store
from itinerary.cli.main import app as command_line
from itinerary.model.audit_queries import EVIDENCE_PAGE
from itinerary.stores.sqlite import SqliteEngine
from itinerary.stores.store import EngineStore
from tests.integration.audit.ledgers import BEGINNING, PERIOD, Past

pytestmark = pytest.mark.spec("U6", "a damaged store")

COUNT = 40
COPIED = """
INSERT INTO itinerary_occurrences (ref, instant, job, kind, request, version, due_at, is_recovery, priority, created_at,
  status, fence, sequence, adjustments, ended_at, is_withdrawn)
SELECT 99, instant, job, kind, 'again', version, due_at, is_recovery, priority, created_at,
  status, fence, sequence, adjustments, ended_at, is_withdrawn FROM itinerary_occurrences WHERE ref = 8
"""


def made(path: Path, count: int) -> None:
    """A good store."""

    async def make() -> None:
        past = Past()
        async with past.on(SqliteEngine(path, clock=past.clock)) as store:
            await past.goes_on(store, count)

    asyncio.run(make())


def audited(path: Path, start: int | None = None, end: int | None = None) -> tuple[AuditResult, list[AuditProgress]]:
    heard: list[AuditProgress] = []

    async def read() -> AuditResult:
        async with EngineStore(SqliteEngine(path)) as store:
            return await audit_store(store, start, end, heard.append)

    return asyncio.run(read()), heard


def damaged(path: Path, *statements: str, **values: int) -> AuditResult:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            assert connection.execute(statement, values).rowcount == 1, f"{statement} did not change one row"
    connection.close()
    return audited(path)[0]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "itinerary.db"
    made(path, COUNT)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, good: bytes) -> Path:
    path = tmp_path / "itinerary.db"
    path.write_bytes(good)
    return path


def told(found: AuditResult) -> list[str]:
    return [str(finding) for finding in found.findings]


def test_a_good_store_with_ten_thousand_occurrences_passes(tmp_path: Path) -> None:
    path = tmp_path / "itinerary.db"
    made(path, 10_000)
    found, heard = audited(path)
    assert told(found) == []
    assert found.is_clean
    assert (found.occurrences, found.expected, found.matched) == (10_000, 10_000, 10_000)
    page = EVIDENCE_PAGE
    assert [progress.occurrences for progress in heard][:2] == [page, 2 * page - 1], "a page at a time, one row twice"
    assert heard[-1].upto == heard[-1].end
    part, _ = audited(path, BEGINNING + 5 * PERIOD, BEGINNING + 8 * PERIOD)
    assert (part.occurrences, part.expected, part.matched, part.is_clean) == (3, 3, 3, True)


def test_a_row_that_was_deleted_is_lost(path: Path) -> None:
    found = damaged(path, "DELETE FROM itinerary_occurrences WHERE ref = 8")
    assert (found.lost, found.is_clean) == (1, False)
    assert told(found) == ["often:1767225670 (2026-01-01T00:01:10Z) is lost: nothing was decided about it"]


def test_an_instant_that_two_rows_decide_is_doubled(path: Path) -> None:
    found = damaged(path, COPIED)
    assert (found.doubled, found.is_clean) == (1, False)
    assert (
        "often:1767225670 (2026-01-01T00:01:10Z) is decided more than once: by occurrence 8 and occurrence 99"
        in told(found)
    )


def test_the_command_names_what_was_deleted_and_what_was_doubled_by_hand_and_ends_with_1(path: Path) -> None:
    damaged(path, "DELETE FROM itinerary_occurrences WHERE ref = 5", COPIED)
    ended = CliRunner().invoke(command_line, ["audit", "--store", f"sqlite:///{path}"])
    assert ended.exit_code == 1
    summary, *lines = ended.stdout.splitlines()
    assert "40 expected, 38 decided exactly once, 1 lost, 1 doubled" in summary
    assert "  often:1767225640 (2026-01-01T00:00:40Z) is lost: nothing was decided about it" in lines
    twice = "is decided more than once: by occurrence 8 and occurrence 99"
    assert f"  often:1767225670 (2026-01-01T00:01:10Z) {twice}" in lines


def test_an_instant_that_a_window_decides_again_is_doubled(path: Path) -> None:
    start, end = BEGINNING + 7 * PERIOD, BEGINNING + 9 * PERIOD
    found = damaged(
        path,
        "UPDATE itinerary_occurrences SET window_start = :start, window_end = :end, window_count = 3 WHERE ref = 8",
        "INSERT INTO itinerary_windows VALUES (:end, 8)",
        start=start,
        end=end,
    )
    twice = "often:1767225680 (2026-01-01T00:01:20Z) is decided more than once: by occurrence 9 and the window of"
    assert told(found) == [
        f"{twice} occurrence 8",
        "often:1767225670 (2026-01-01T00:01:10Z, occurrence 8) says that its window holds 3 instants, and it holds 2",
    ]


def test_a_row_whose_instant_nobody_expected_is_named(path: Path) -> None:
    found = damaged(path, "UPDATE itinerary_occurrences SET instant = instant + 5000000 WHERE ref = 8")
    assert (found.lost, found.unexpected, found.is_clean) == (1, 1, False)
    assert "often:1767225675 (2026-01-01T00:01:15Z) was never expected, and has occurrence 8" in told(found)


@pytest.mark.parametrize(
    ("statement", "check", "message"),
    [
        (
            "INSERT INTO itinerary_transitions VALUES (8, 2, 0, 'pending', 'completed', 0, 1, NULL)",
            Check.TRAIL,
            "has a trail in which a line from pending to completed follows running",
        ),
        (
            "INSERT INTO itinerary_transitions VALUES (8, 2, 0, 'running', 'prerun', 0, 1, NULL)",
            Check.TRAIL,
            "has an illegal step in its trail",
        ),
        (
            "UPDATE itinerary_occurrences SET status = 'failed' WHERE ref = 8",
            Check.TRAIL,
            "is failed, and its trail ends with running",
        ),
        ("UPDATE itinerary_occurrences SET ended_at = NULL WHERE ref = 8", Check.TRAIL, "is completed, and has no end"),
        (
            "UPDATE itinerary_occurrences SET window_end = instant + 1000000 WHERE ref = 8",
            Check.INDEXES,
            "answers for a window, and the table of windows lacks it",
        ),
        (
            "INSERT INTO itinerary_active SELECT job, ref, 0 FROM itinerary_occurrences WHERE ref = 8",
            Check.INDEXES,
            "is completed, and the table active (due 0) leads to it",
        ),
        (
            "DELETE FROM itinerary_history_chunks WHERE number = 0",
            Check.INDEXES,
            "is not at place 7 of its job's history: nobody is",
        ),
        (
            "INSERT INTO itinerary_shares VALUES ('api', 8)",
            Check.INDEXES,
            "is completed, and limit api leads to it",
        ),
        ("UPDATE itinerary_overlap_slots SET ref = 8, fence = 1", Check.HELD, "is completed, and is in its job's slot"),
        ("UPDATE itinerary_occurrences SET holds = '[\"api\"]' WHERE ref = 8", Check.HELD, "holds a share of api"),
    ],
)
def test_what_contradicts_itself_is_named(path: Path, statement: str, check: Check, message: str) -> None:
    found = damaged(path, statement)
    assert not found.is_clean
    assert found.wrong == len(found.findings)
    assert any(
        finding.check is check and message in str(finding) and "often:1767225670" in str(finding)
        for finding in found.findings
    ), told(found)


def test_an_index_entry_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "itinerary.db"

    async def make() -> None:
        past = Past()
        async with past.on(SqliteEngine(path, clock=past.clock)) as store:
            await past.goes_on(store, 3, ends=False)

    asyncio.run(make())
    assert audited(path)[0].is_clean, "what still runs is no fault"
    found = damaged(path, "DELETE FROM itinerary_active WHERE ref = 2")
    assert told(found) == [
        "often:1767225610 (2026-01-01T00:00:10Z, occurrence 2) is running, and the table active lacks it"
    ]


def test_what_leads_to_a_row_that_is_gone_is_named(path: Path) -> None:
    found = damaged(path, "INSERT INTO itinerary_waiting VALUES (0, 4711)")
    assert told(found) == ["the store: the table waiting (due 0) leads to occurrence 4711, which is not there"]


def test_a_store_without_jobs_is_clean(tmp_path: Path) -> None:
    found, _ = audited(tmp_path / "itinerary.db")
    assert (found.expected, found.occurrences, found.is_clean) == (0, 0, True)
