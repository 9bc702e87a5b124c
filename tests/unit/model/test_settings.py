"""The settings of a node: their defaults, their door, and the pairs that contradict each other."""

from datetime import timedelta
from typing import Any

import pytest

from itinerary.errors import ConfigError
from itinerary.model import Settings, from_json, read_settings, to_json

SECOND = 1_000_000

DEFAULTS_OF_THE_SPECIFICATION = {
    "pre_schedule_interval": 10 * SECOND,
    "index_rebuild_interval": 60 * SECOND,
    "lookahead_window": 600 * SECOND,
    "grace_period": 30 * SECOND,
    "loop_interval": SECOND,
    "inbox_buffer_size": 10_000,
    "inbox_send_timeout": 5 * SECOND,
    "orchestrator_heartbeat_interval": 10 * SECOND,
    "max_missed_orchestrator_heartbeats": 3,
    "node_heartbeat_interval": 5 * SECOND,
    "takeover_after": 2 * SECOND,
    "max_concurrent_jobs": 50,
    "shutdown_grace_period": 30 * SECOND,
    "kill_grace": 10 * SECOND,
    "reaper_interval": 30 * SECOND,
    "max_buffered_updates": 10_000,
    "update_flush_threshold": 100,
    "update_flush_interval": SECOND,
    "stats_flush_threshold": 30,
    "stats_flush_interval": 30 * SECOND,
}


@pytest.mark.spec("L4", "defaults")
@pytest.mark.parametrize("key", DEFAULTS_OF_THE_SPECIFICATION)
def test_a_setting_has_the_default_of_the_specification(key: str) -> None:
    assert getattr(read_settings({}), key) == DEFAULTS_OF_THE_SPECIFICATION[key]


@pytest.mark.spec("L4", "defaults")
def test_there_is_no_setting_that_the_specification_does_not_name() -> None:
    others = {"limits", "recovery_pace", "update_policy"}  # X11, R3 and R7 speak of them
    others |= {"keep_for", "keep_failed_for", "keep_max", "metrics_jobs_max"}  # D8, and the bound of U7's labels
    others |= {"web_workers", "web_work_timeout", "web_work_megabytes", "web_work_cpu_for"}  # the limits of Q4
    assert set(Settings.__struct_fields__) == {*DEFAULTS_OF_THE_SPECIFICATION, *others}
    assert read_settings({}).warnings() == []


@pytest.mark.spec("L4", "what is accepted")
def test_settings_are_written_like_all_durations() -> None:
    read = read_settings(
        {"loop_interval": "250ms", "kill_grace": timedelta(minutes=1), "grace_period": 5, "reaper_interval": None}
    )
    assert (read.loop_interval, read.kill_grace, read.grace_period) == (SECOND // 4, 60 * SECOND, 5 * SECOND)
    assert read.reaper_interval == 30 * SECOND
    assert from_json(Settings, to_json(read)) == read


@pytest.mark.spec("X11", "counts of limits")
def test_a_limit_has_a_number_of_shares() -> None:
    assert read_settings({"limits": {"api": 5}}).limits == {"api": 5}


BAD: list[tuple[Any, str]] = [
    ({"loop_intervall": 1}, "loop_intervall: unknown key; did you mean 'loop_interval'"),
    ({"loop_interval": "0s"}, "loop_interval: duration '0s' is too short; at least 1ms"),
    ({"loop_interval": "2d"}, "loop_interval: 2d is too long; at most 1d"),
    ({"max_concurrent_jobs": 0}, "max_concurrent_jobs: 0 is out of range 1-"),
    ({"max_concurrent_jobs": "many"}, "max_concurrent_jobs: 'many' is not a whole number"),
    ({"limits": ["api"]}, "limits: a value of type 'list' is not a table of names and numbers"),
    ({"limits": {"api": "5"}}, "limits.api: '5' is not a whole number"),
    ({"limits": {"a b": 5}}, "limits: 'a b' is not a name"),
    (None, "settings: None is not a table"),
]


@pytest.mark.spec("L4", "errors")
@pytest.mark.parametrize(("table", "message"), BAD, ids=[message for _, message in BAD])
def test_a_setting_that_is_wrong_is_refused_by_key(table: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        read_settings(table)


@pytest.mark.spec("L4", "required")
@pytest.mark.parametrize("window", ["59s", "1m"])
def test_an_index_that_outlives_its_window_stops_the_start_naming_both(window: str) -> None:
    with pytest.raises(ConfigError, match=rf"index_rebuild_interval \(1m\) .* lookahead_window \({window}\)"):
        read_settings({"lookahead_window": window})
    assert read_settings({"lookahead_window": "61s"}).lookahead_window == 61 * SECOND


@pytest.mark.spec("L4", "recommended")
def test_settings_that_only_make_work_late_are_warned_about_with_both_values() -> None:
    warnings = read_settings({"loop_interval": "30s"}).warnings()
    assert len(warnings) == 2
    assert "grace_period (30s) should be longer than loop_interval (30s)" in warnings[0]
    assert "pre_schedule_interval (10s) should not be shorter than loop_interval (30s)" in warnings[1]
    assert read_settings({"loop_interval": "10s"}).warnings() == []
