"""The report says what the results say, also where that is not to our credit; and what is wrong with a file of them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench import __main__ as command_line
from bench.__main__ import BENCHES
from bench.harness import Result
from bench.herds import Herd, results
from bench.peers import PEERS, versions
from bench.report import SHOWS, BadResults, read_results, write_report

LATE = [(f"job {number}", 100.2) for number in range(10_000)]
OURS = Herd(10_000, 100.0, LATE, 10_000, 101.0, 2.0)
SLOW = Herd(10_000, 100.0, [(job, 130.0) for job, _ in LATE[:3_000]], 2_500, 160.0, 50.0)
FEW = Herd(1_000, 100.0, [("twice", 101.0), ("twice", 102.0)], 2, 110.0, 1.0)
CANNED = [
    *results("herd", "sqlite", OURS, {"slow | <peer>": SLOW, "few": FEW}),
    *results("oneshot", "postgres", OURS, {}),
    Result("cron", "1h_ms", 1.0, "ms", "croniter", 50.0, differing=2),
    Result("index", "peek_us", 0.05, "µs"),
    Result("cost", "sqlite_cpu_s_per_1000_1k", 0.1, "s"),
    Result("cost", "sqlite_cpu_s_per_1000_100k", 0.2, "s"),
    Result("history", "sqlite_lifecycle_per_s_1k", 9_000.0, "/s"),
    Result("history", "sqlite_lifecycle_per_s_5m", 8_900.0, "/s"),
    Result("idle", "rss_mb_100k", 250.0, "MB"),
]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "explanation").mkdir()
    return tmp_path


def written(docs: Path, said: list[Result]) -> str:
    write_report(said, docs)
    return (docs / "explanation/performance.md").read_text("utf-8")


def saved(docs: Path, *lines: str) -> Path:
    path = docs / "results.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


# -- the page ----------------------------------------------------------------------------------------------------------


def test_a_herd_has_a_row_for_every_scheduler_with_what_it_missed_doubled_and_left_unfinished(docs: Path) -> None:
    page = written(docs, CANNED)
    assert "| 10,000 on SQLite | per s | p50 ms | p99 ms | max ms | missed | doubled | unfinished |" in page
    assert "| Itinerary | 10,000 /s | 200 ms | 200 ms | 200 ms | 0 jobs | 0 jobs | 0 jobs | 0.2 s |" in page
    assert "| slow \\| &lt;peer> | 41.7 /s | 30,000 ms |" in page
    assert "| 7,000 jobs | 0 jobs | 7,500 jobs |" in page
    assert "| few (1,000) |" in page
    assert "| 999 jobs | 1 jobs | 998 jobs |" in page


def test_other_benches_have_a_row_for_every_measure_and_no_empty_columns(docs: Path) -> None:
    page = written(docs, CANNED)
    assert "| measure | ours | peer | theirs | ratio | differing |\n" in page
    assert "| 1h_ms | 1 ms | croniter | 50 ms | 50× | 2 |" in page
    assert "## `index`" in page
    assert "| measure | ours |\n|---|---|\n| peek_us | 0.05 µs |" in page


def test_a_target_that_is_not_met_says_so(docs: Path) -> None:
    page = written(docs, CANNED)
    assert "| P1: as fast as croniter | at least 100 × | 50 × | **no** |" in page
    assert "| P3: throughput on SQLite | at least 8,000 /s | 10,000 /s | yes |" in page
    assert "| P4: p99 start lateness of 10,000 on SQLite | at most 250 ms | 200 ms | yes |" in page
    assert "as a multiple of that beside 1,000, on SQLite | at most 1.2 × | 2 × | **no** |" in page


def test_a_peer_that_was_measured_is_in_the_ratio_to_the_best_one(docs: Path) -> None:
    beside = [*results("herd", "postgres", OURS, {"slow": SLOW, "best": Herd(10_000, 100.0, LATE, 10_000, 104.0, 2.0)})]
    assert "| P3: best recurring peer on PostgreSQL | at least 10 × | 4 × | **no** |" in written(docs, beside)


def test_the_page_names_the_versions_of_the_peers_and_no_date(docs: Path) -> None:
    page = written(docs, CANNED)
    assert f"Procrastinate {versions()['Procrastinate']}" in page
    assert f"APScheduler {versions()['APScheduler 4']}" in page
    assert "cores" in page


def test_every_peer_has_a_version_and_takes_part_in_something() -> None:
    assert set(versions()) == {peer.title for peer in PEERS}
    assert all(peer.herd or peer.oneshot for peer in PEERS)


def test_a_peer_that_is_slow_to_register_is_given_fewer_jobs_but_never_more_than_wanted() -> None:
    (dbos,) = (peer for peer in PEERS if peer.title == "DBOS")
    assert dbos.count("herd", 10_000) == 1_000
    assert dbos.count("herd", 100) == 100
    assert dbos.count("oneshot", 10_000) == 10_000
    assert not dbos.takes_part("herd", "sqlite")


def test_every_bench_says_what_it_shows() -> None:
    assert set(SHOWS) == set(BENCHES)


def test_of_a_measure_that_was_made_twice_the_last_one_counts(docs: Path) -> None:
    page = written(docs, [Result("idle", "rss_mb_100k", 250.0, "MB"), Result("idle", "rss_mb_100k", 260.0, "MB")])
    assert "260 MB" in page
    assert "250 MB" not in page


# -- its charts --------------------------------------------------------------------------------------------------------


def test_every_chart_is_well_formed_and_on_the_page_and_old_ones_go(docs: Path) -> None:
    (docs / "assets/performance-old.svg").write_text("<svg/>", "utf-8")
    page = written(docs, CANNED)
    charts = sorted((docs / "assets").iterdir())
    names = [f"performance-{name}.svg" for name in ("cost-history", "cost-jobs", "lateness", "memory", "throughput")]
    assert [chart.name for chart in charts] == names
    for chart in charts:
        ET.fromstring(chart.read_text("utf-8"))  # noqa: S314 - our own
        assert f"](../assets/{chart.name})" in page


def test_the_chart_of_throughput_has_every_scheduler(docs: Path) -> None:
    written(docs, CANNED)
    words = (docs / "assets/performance-throughput.svg").read_text("utf-8")
    assert "10,000 recurring on SQLite: Itinerary 10,000 /s, slow | &lt;peer&gt; 41.7 /s, few (1,000) 0.2 /s" in words
    assert "10,000 one-shot on PostgreSQL: Itinerary 10,000 /s" in words


# -- from a file -------------------------------------------------------------------------------------------------------


def test_results_that_were_saved_make_the_same_page(docs: Path) -> None:
    rounded = [Result.from_json(result.to_json()) for result in CANNED]
    page = written(docs, CANNED)
    assert read_results(saved(docs, *(result.to_json() for result in CANNED), "")) == rounded
    assert written(docs, rounded) == page


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "Expecting property name"),
        ("[]", "is no JSON object"),
        ('{"bench": "cron"}', "has no measure"),
        (Result("cron", "1h_ms", 1.0, "ms").to_json().replace("1.0", '"fast"'), 'ours is "fast"; it must be a number'),
        (Result("cron", "1h_ms", 1.0, "ms").to_json().replace("1.0", "true"), "ours is true; it must be a number"),
        (Result("corn", "1h_ms", 1.0, "ms").to_json(), "there is no bench 'corn'"),
        ("bench   measure   ours", "Expecting value"),
        (Result("cron", "1h_ms", 1.0, "ms", differing=7).to_json().replace("7", '"7"'), 'differing is "7"'),
    ],
)
def test_a_line_that_is_no_result_is_named_by_file_and_line(docs: Path, line: str, what: str) -> None:
    path = saved(docs, Result("cron", "1h_ms", 1.0, "ms").to_json(), "", line)
    with pytest.raises(BadResults) as caught:
        read_results(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert what in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_file_without_results_is_an_error_that_says_what_to_do(docs: Path, content: bytes | None) -> None:
    path = docs / "results.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadResults, match="--json"):
        read_results(path)


def test_the_command_says_what_is_wrong_and_writes_nothing(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(docs, "{}")
    assert command_line.main(["report", "--from", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"{path}:1: has no bench")


def test_a_bench_is_not_run_from_a_file(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line.main(["cron", "--from", str(saved(docs, "{}"))])
    assert "--from is for report" in capsys.readouterr().err
