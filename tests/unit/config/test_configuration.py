"""Where settings come from, which of them wins, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.config.configuration import DEFAULT_STORE, Configuration, read_configuration
from itinerary.errors import ConfigError
from itinerary.model import Overlap

SECOND = 1_000_000


def read(
    directory: Path, arguments: dict[str, object] | None = None, toml: str | None = None, **environ: str
) -> Configuration:
    if toml is not None:
        (directory / "itinerary.toml").write_text(toml, "utf-8")
    return read_configuration(arguments or {}, environ, directory)


def complaint(directory: Path, toml: str | None = None, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(directory, None, toml, **environ)
    return str(caught.value)


@pytest.mark.spec("U2", "settings in itinerary.toml")
def test_without_any_setting_everything_has_its_default(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert (found.store, found.timezone, found.allow_modules) == (DEFAULT_STORE, None, ())
    assert found.settings.grace_period == 30 * SECOND
    assert found.name


def test_arguments_come_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    toml = (
        'store = "memory:"\nname = "file"\ntimezone = "Europe/Berlin"\ngrace_period = "1m"\nmax_concurrent_jobs = 3\n'
    )
    found = read(
        tmp_path,
        {"name": "argument", "timezone": None},
        toml,
        ITINERARY_NAME="variable",
        ITINERARY_GRACE_PERIOD="90s",
    )
    assert (found.name, found.store, found.timezone) == ("argument", "memory:", "Europe/Berlin")
    assert found.settings.grace_period == 90 * SECOND
    assert found.settings.max_concurrent_jobs == 3


def test_the_file_may_be_somewhere_else(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('name = "other"\n', "utf-8")
    assert read(tmp_path, toml='name = "here"\n', ITINERARY_CONFIG="other.toml").name == "other"
    assert "missing.toml cannot be read" in complaint(tmp_path, ITINERARY_CONFIG="missing.toml")


def test_a_variable_holds_lists_limits_and_numbers_as_text(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        ITINERARY_ALLOW_MODULES="etl, reports.daily",
        ITINERARY_LIMITS="api=5, mail=2",
        ITINERARY_MAX_CONCURRENT_JOBS="7",
        ITINERARY_SECRET_TOKEN="hush",  # noqa: S106 - nobody's
        ITINERARY_TEST_POSTGRES="postgresql://x",
        UNRELATED="1",
    )
    assert found.allow_modules == ("etl", "reports.daily")
    assert dict(found.settings.limits) == {"api": 5, "mail": 2}
    assert found.settings.max_concurrent_jobs == 7


@pytest.mark.spec("Q7", "unknown settings")
def test_a_misspelt_key_is_told_with_its_file_line_and_a_suggestion(tmp_path: Path) -> None:
    told = complaint(tmp_path, 'name = "a"\n\ngrace_perod = "1m"\n')
    assert told.startswith("itinerary.toml:3: grace_perod: unknown key; did you mean 'grace_period'?")


@pytest.mark.spec("Q7", "unknown settings")
def test_a_misspelt_variable_is_told_with_a_suggestion(tmp_path: Path) -> None:
    told = complaint(tmp_path, ITINERARY_STOER="memory:")
    assert told == "ITINERARY_STOER: no setting has this name; did you mean ITINERARY_STORE?"


@pytest.mark.spec("Q7", "unknown settings")
def test_a_misspelt_argument_is_told_with_a_suggestion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^Itinerary: kill_grase: unknown key; did you mean 'kill_grace'\?"):
        Itinerary(kill_grase="1s")  # type: ignore[call-arg]  # misspelt on purpose


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("max_concurrent_jobs = 0\n", "itinerary.toml:1: max_concurrent_jobs: 0 is out of range"),
        ('timezone = "Europe/Berln"\n', "itinerary.toml:1: timezone: time zone 'Europe/Berln' is unknown"),
        ("store = 5\n", "itinerary.toml:1: store: 5 is not text"),
        ('allow_modules = "etl"\n', "itinerary.toml:1: allow_modules: 'etl' is not a list of names"),
        ('name = "a"\n[defaults]\noverlap = "skpi"\n', "itinerary.toml:2: defaults.overlap: 'skpi' is unknown"),
        ('[defaults]\ntimezone = "UTC"\n', "itinerary.toml:1: defaults.timezone: stands at the top"),
        ("[jobs.backup]\n", "itinerary.toml:1: jobs: stand in a job file of their own"),
        ("name = \n", "itinerary.toml: this is no TOML: "),
        (
            'lookahead_window = "30s"\n',
            "itinerary.toml:1: index_rebuild_interval (1m) must be shorter than lookahead_window (30s)",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(tmp_path: Path, toml: str, told: str) -> None:
    assert complaint(tmp_path, toml).startswith(told)


def test_what_is_wrong_in_a_variable_is_told_with_its_name(tmp_path: Path) -> None:
    assert complaint(tmp_path, ITINERARY_KILL_GRACE="soon").startswith("ITINERARY_KILL_GRACE: kill_grace: ")
    assert complaint(tmp_path, ITINERARY_LIMITS="api").startswith("ITINERARY_LIMITS: 'api' is no list of limits")


@pytest.mark.spec("X5", "defaults in the settings")
def test_defaults_are_overrides_for_all_jobs_and_the_zone_is_one_of_them(tmp_path: Path) -> None:
    found = read(tmp_path, toml='timezone = "Asia/Tokyo"\n[defaults]\noverlap = "queue"\n')
    assert (found.defaults.overlap, found.defaults.timezone) == (Overlap.QUEUE, "Asia/Tokyo")


def test_who_starts_an_app_may_say_where_it_keeps_things(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    app = Itinerary(store="memory:", name="written")
    app.reconfigure(store="sqlite:///other.db")
    assert (app.configuration.store, app.configuration.name) == ("sqlite:///other.db", "written")


@pytest.mark.spec("K5", "namespace of tasks")
def test_the_namespace_of_pods_is_a_setting_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    assert read(tmp_path).pod_namespace is None
    assert read(tmp_path, ITINERARY_POD_NAMESPACE="itinerary-tasks").pod_namespace == "itinerary-tasks"
    assert read(tmp_path, toml='pod_namespace = "jobs"\n').pod_namespace == "jobs"
    told = complaint(tmp_path, ITINERARY_POD_NAMESPACE="Itinerary Tasks")
    assert told.startswith("ITINERARY_POD_NAMESPACE: pod_namespace: 'Itinerary Tasks' is not a namespace; write a-z")
