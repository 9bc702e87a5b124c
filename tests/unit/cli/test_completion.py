"""Names of jobs that a shell completes, asked for as shells ask: through the environment (U3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from itinerary import Itinerary, every
from itinerary.cli.main import app as command_line
from itinerary.jobs.registration import register
from itinerary.stores import open_store
from tests.unit.jobs.test_registration import LOG


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with three jobs in it."""
    place = f"sqlite:///{tmp_path}/itinerary.db"
    app = Itinerary(store=place)
    for name in ("etl", "etl-nightly", "report"):
        app.job(name, every("1h")).shell("work", ["true"])

    async def declare() -> None:
        async with open_store(place) as store:
            await register(store, app._declared, by="anna", log=LOG)

    asyncio.run(declare())
    return place


def completed(shell: str, words: list[str], url: str | None = None) -> list[str]:
    """What a shell offers for the last of these words."""
    place = words[-1] if shell == "fish" else str(len(words))
    asked = {"COMP_WORDS": " ".join(["itinerary", *words]), "COMP_CWORD": place}
    environment = {"_ITINERARY_COMPLETE": f"{shell}_complete", **asked, "ITINERARY_STORE": url}
    result = CliRunner().invoke(command_line, [], env=environment, prog_name="itinerary")
    assert result.stderr == ""
    return [word.removeprefix("plain,") for word in result.stdout.split()]


@pytest.mark.spec("U3", "completion")
@pytest.mark.parametrize("command", ["show", "history", "jobs", "upcoming", "pause", "resume", "trigger", "backfill"])
def test_names_of_jobs_complete_where_a_job_is_meant(url: str, command: str) -> None:
    assert completed("bash", [command, "etl"], url) == ["etl", "etl-nightly"]
    assert completed("bash", [command, "q"], url) == []


@pytest.mark.spec("U3", "completion")
def test_each_shell_is_answered_in_its_own_way(url: str) -> None:
    assert completed("bash", ["show", "r"], url) == ["report"]
    assert "report" in " ".join(completed("zsh", ["show", "r"], url))
    assert completed("fish", ["show", "r"], url) == ["report"]


@pytest.mark.spec("U3", "completion")
def test_the_store_that_is_named_before_is_the_one_that_is_asked(url: str) -> None:
    assert completed("bash", ["show", "--store", url, "r"]) == ["report"]


@pytest.mark.spec("U3", "completion")
@pytest.mark.parametrize(
    "store", ["sqlite:///{0}/absent.db", "sqlite:///{0}", "nonsense:", "postgresql://127.0.0.1:9/x"]
)
def test_a_store_that_is_not_there_is_silence_and_makes_nothing(tmp_path: Path, store: str) -> None:
    assert completed("bash", ["show", "e"], store.format(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("U3", "completion")
def test_commands_options_and_choices_complete() -> None:
    assert "upcoming" in completed("bash", ["upc"])
    assert "--keep-for" in completed("bash", ["prune", "--keep"])
    assert completed("bash", ["history", "etl", "--state", "failed_"]) == ["failed_stale"]


@pytest.mark.spec("U3", "completion")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_where_the_shell_looks_for_it(tmp_path: Path, shell: str) -> None:
    environment = {"HOME": str(tmp_path), "SHELL": f"/bin/{shell}"}
    shown = CliRunner().invoke(command_line, ["--show-completion"], env=environment)
    installed = CliRunner().invoke(command_line, ["--install-completion"], env=environment)
    assert (shown.exit_code, installed.exit_code) == (0, 0)
    place = Path(installed.stdout.partition(" in ")[2].partition(";")[0])
    assert place.is_relative_to(tmp_path)
    assert place.read_text() == shown.stdout.removesuffix("\n")
    assert "_ITINERARY_COMPLETE" in shown.stdout


@pytest.mark.spec("U3", "completion")
def test_a_shell_without_completion_is_a_usage_error() -> None:
    result = CliRunner().invoke(command_line, ["--install-completion"], env={"SHELL": "/bin/dash"})
    assert result.exit_code == 2
    assert "bash, fish, zsh" in result.stderr
