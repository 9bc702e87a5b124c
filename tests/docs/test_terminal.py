"""The terminal that runs the `console` blocks of the pages notices what a page says wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Block, Page
from tests.docs.terminal import Terminal

PAGE = Page(ROOT / "README.md")


def complaints(source: str, terminal: Terminal | None = None) -> list[str]:
    with terminal or Terminal() as used:
        return used.complaints(PAGE, Block("console", source, 1, None))


@pytest.mark.parametrize(
    ("source", "printed"),
    [
        ("$ itinerary check nowhere.toml\njobs.toml: no mistakes\n", "nowhere.toml: there is no such file"),
        ("$ cat notes\ntwo\n", "one"),
        ("$ curl http://127.0.0.1/\n", "(no test runs this command)"),
        ("$ cat notes\none\n$ grep two notes\ntwo\n", "`grep two notes` printed:\nand not:\ntwo"),
    ],
)
def test_a_command_that_prints_something_else_or_that_no_test_runs_is_noticed(
    source: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").write_text("one\n", "utf-8")
    (complaint,) = complaints(source)
    assert printed in complaint
    assert complaints("$ cat notes\n...\n") == []


def test_the_crontab_of_the_transcript_has_25_lines_and_every_oddity() -> None:
    (crontab,) = [block.source for block in Page(DOCS / "how-to/move-a-crontab.md").blocks if "MAILTO" in block.source][
        :1
    ]
    assert len(crontab.splitlines()) == 25
    for oddity in (
        "MAILTO",
        " root ",
        "%first",
        r"\%",
        "@reboot",
        "@daily",
        "CRON_TZ",
        "MON-FRI",
        "JAN",
        "*/7",
        "8-17/3",
    ):
        assert oddity in crontab
