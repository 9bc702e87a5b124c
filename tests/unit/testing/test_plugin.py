"""The fixture `itinerary_clock`, as pytest gives it to somebody else's tests (U11)."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import numpy as np
import pytest

from itinerary import Itinerary
from tests.docs.pages import ROOT

pytestmark = pytest.mark.spec("U11", "plugin")
pytest_plugins = ["pytester"]

KEPT = (np, Itinerary)
"""Imported here, and not within: pytester forgets what is imported within, and NumPy is loaded once in a process."""

APP = """
    from itinerary import Itinerary, cron

    app = Itinerary(store="sqlite:///must-not-be-made.db")

    @app.job(cron("0 5 * * *", tz="America/New_York"))
    async def nightly_report(ctx):
        ctx.log.info("building", attempt=ctx.attempt)

    @app.job(cron("0 6 * * *", tz="America/New_York"))
    def broken(ctx):
        raise ValueError("no rows")
"""


def played(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(app=APP, test_jobs=test)
    return pytester.runpytest_inprocess("-p", "pytest_itinerary", "-p", "no:cacheprovider", "-W", "error", *options)


def test_the_example_works_as_it_is_typed(pytester: pytest.Pytester) -> None:
    result = played(
        pytester,
        """
        from app import app

        def test_nightly(itinerary_clock):
            run = itinerary_clock(app, start="2026-03-08T00:00", tz="America/New_York")
            run.advance(days=1)
            assert run.history("nightly_report").statuses == ["completed"]

        def test_again(itinerary_clock):
            run = itinerary_clock(app)
            run.advance(days=3)
            assert run.history("nightly_report").statuses == ["completed"] * 3
        """,
    )
    result.assert_outcomes(passed=2)
    assert not (pytester.path / "must-not-be-made.db").exists()


def test_a_test_that_fails_is_shown_with_what_its_jobs_did(pytester: pytest.Pytester) -> None:
    result = played(
        pytester,
        """
        from app import app

        def test_nightly(itinerary_clock):
            run = itinerary_clock(app, start="2026-03-08T00:00", tz="America/New_York")
            run.advance(days=1)
            assert run.history("broken").statuses == ["completed"]
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- Itinerary -*",
            "the clock shows 2026-03-09T00:00:00-04:00",
            "<History of 'broken': 1>",
            "*2026-03-08 06:00:00-0400 scheduled failed*",
        ]
    )


def test_a_test_node_ends_with_its_test_even_if_that_fails(pytester: pytest.Pytester) -> None:
    result = played(
        pytester,
        """
        import threading
        from app import app

        BEFORE = threading.enumerate()  # other tests of this process may have left daemons

        def test_one(itinerary_clock):
            itinerary_clock(app).advance(days=1)
            raise RuntimeError

        def test_two():
            assert not app.is_running
            new = [thread.name for thread in threading.enumerate() if thread not in BEFORE]
            assert [name for name in new if "itinerary" in name] == []
        """,
    )
    result.assert_outcomes(passed=1, failed=1)


def test_the_fixture_is_listed_with_what_it_does(pytester: pytest.Pytester) -> None:
    result = played(pytester, "", "--fixtures")
    result.stdout.fnmatch_lines(["itinerary_clock*", "*Start test nodes: *"])


def test_the_plugin_imports_nothing_before_a_test_asks_for_it() -> None:
    lines = ["import sys", f"sys.path.insert(0, {str(ROOT / 'src')!r})", "import pytest", "before = set(sys.modules)"]
    lines += ["import pytest_itinerary", "print(sorted(set(sys.modules) - before))"]
    told = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "['pytest_itinerary']"


def test_pytest_finds_the_plugin_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"pytest_itinerary": "pytest_itinerary"}
    assert not any("pytest" in dependency for dependency in project["project"]["dependencies"])
