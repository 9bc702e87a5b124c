"""Configurations that are read again: what holds from then on, and what is named because it needs a restart (U13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.config.configuration import read_configuration
from itinerary.config.reload import reread
from itinerary.errors import ConfigError
from itinerary.model.settings import LIVE, ReloadResult, Settings, reread_settings


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Itinerary:
    """An app that says one thing itself, and has the rest from a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "itinerary.toml").write_text('recovery_pace = 10\ntimezone = "Europe/Berlin"\n', "utf-8")
    return Itinerary(max_concurrent_jobs=3)


def told(app: Itinerary, toml: str) -> ReloadResult:
    (app._directory / "itinerary.toml").write_text(toml, "utf-8")
    return app._reread()


@pytest.mark.spec("U13", "the file")
def test_the_file_is_read_where_it_was_and_arguments_stay(
    app: Itinerary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = told(app, 'recovery_pace = 20\nmax_concurrent_jobs = 9\ntimezone = "Europe/Berlin"\n')
    assert found.changed == {"recovery_pace": "10 -> 20"}
    assert found.needs_restart == ()
    assert app.configuration.settings == Settings(recovery_pace=20, max_concurrent_jobs=3)


@pytest.mark.spec("U13", "the environment")
def test_the_environment_is_read_again_too(app: Itinerary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ITINERARY_RECOVERY_PACE", "30")
    assert app._reread().changed == {"recovery_pace": "10 -> 30"}


@pytest.mark.spec("U13", "a restart is needed")
def test_what_a_node_is_built_on_is_named_and_no_value_of_it_is(app: Itinerary) -> None:
    before = app.configuration
    found = told(
        app,
        'store = "postgresql://anna:secret@db/x"\nname = "other"\ntimezone = "UTC"\n'
        'kill_grace = "1m"\nrecovery_pace = 10\n'
        'allow_modules = ["jobs"]\nallow_hosts = ["db"]\n[defaults]\noverlap = "queue"\n',
    )
    assert found.needs_restart == (
        "store",
        "timezone",
        "name",
        "allow_modules",
        "allow_hosts",
        "kill_grace",
    )
    assert found.needs_apply == ("defaults",)
    assert found.changed == {}
    assert "secret" not in str(found)
    assert app.configuration == before


@pytest.mark.spec("U13", "a restart is needed")
def test_another_zone_is_one_change(tmp_path: Path) -> None:
    berlin = read_configuration({"timezone": "Europe/Berlin"}, {}, tmp_path)
    lisbon = read_configuration({"timezone": "Europe/Lisbon"}, {}, tmp_path)
    kept, found = reread(berlin, lisbon)
    assert found.needs_restart == ("timezone",)
    assert kept == berlin


@pytest.mark.spec("U13", "a mistake")
@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("\nrecovery_pace = 0\n", "itinerary.toml:2: recovery_pace: "),
        ("recovery_paces = 1\n", "itinerary.toml:1: recovery_paces: "),
        ("recovery_pace = \n", "itinerary.toml: this is no TOML: "),
        ('\nlookahead_window = "5s"\n', "itinerary.toml:2: index_rebuild_interval (1m) must be shorter than "),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key_and_changes_nothing(app: Itinerary, toml: str, said: str) -> None:
    before = app.configuration
    with pytest.raises(ConfigError) as caught:
        told(app, toml)
    assert str(caught.value).startswith(said)
    assert app.configuration == before


@pytest.mark.spec("U13", "live")
def test_what_is_live_is_taken_over_key_by_key_and_the_rest_is_not() -> None:
    now = Settings()
    wanted = Settings(
        **{key: getattr(now, key) + 1 for key in Settings.__struct_fields__ if isinstance(getattr(now, key), int)}
    )
    found = reread_settings(now, wanted)
    assert set(found.changed) == LIVE - {"update_policy"}
    assert set(found.needs_restart) == set(Settings.__struct_fields__) - LIVE - {"limits"}
    assert reread_settings(found.settings, wanted).changed == {}
    assert reread_settings(now, now) == ReloadResult(now, {}, ())
