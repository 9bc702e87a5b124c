"""Logging: one event name and its fields, for people or as JSON, and never a secret."""

from __future__ import annotations

import io
import json
import logging
import re
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import structlog

from itinerary.config.log_limits import FIELD_MAX
from itinerary.config.log_setup import SecretsHidden, configure_logging, engine_log


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.spec("U9", "JSON")
def test_an_event_is_a_line_of_json_with_its_fields() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    structlog.get_logger().info("occurrence.claimed", run="etl:1767225600", count=3)
    structlog.get_logger().debug("not.shown")
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "occurrence.claimed", "level": "info", "run": "etl:1767225600", "count": 3}


@pytest.mark.spec("U9", "human")
def test_for_people_it_is_a_line_of_text() -> None:
    stream = io.StringIO()
    configure_logging("human", stream=stream)
    structlog.get_logger().warning("inbox.full", depth=10)
    assert "inbox.full" in stream.getvalue()
    assert "depth=10" in stream.getvalue()


@pytest.mark.spec("U9", "human")
def test_people_read_instants_and_not_how_python_writes_them() -> None:
    stream = io.StringIO()
    configure_logging("human", stream=stream)
    structlog.get_logger().info("building", scheduled=datetime(2026, 3, 8, 5, tzinfo=UTC))
    assert "scheduled='2026-03-08 05:00:00+00:00'" in stream.getvalue()


@pytest.mark.spec("U9", "secrets never appear")
@pytest.mark.spec("Q7", "secrets in the log")
@pytest.mark.parametrize("style", ["human", "json"])
def test_a_secret_is_in_no_line_wherever_it_stood(monkeypatch: pytest.MonkeyPatch, style: str) -> None:
    monkeypatch.setenv("ITINERARY_SECRET_TOKEN", "canary-4711")
    stream = io.StringIO()
    configure_logging("json" if style == "json" else "human", stream=stream)
    log = structlog.get_logger().bind(bound="a canary-4711 b")
    try:
        int("no canary-4711 here")
    except ValueError:
        log.exception("failed with canary-4711", nested={"list": ["canary-4711"]}, pair=("canary-4711", 1))
    assert "canary-4711" not in stream.getvalue()
    assert stream.getvalue().count("…hidden…") + stream.getvalue().count("\\u2026hidden\\u2026") >= 5


def test_short_secrets_are_left_alone_since_they_are_parts_of_words() -> None:
    hide = SecretsHidden({"ITINERARY_SECRET_X": "a", "OTHER": "banana"})
    assert hide(None, "info", {"event": "banana"}) == {"event": "banana"}


def test_the_engine_can_be_quieter_than_the_tasks() -> None:
    stream = io.StringIO()
    configure_logging("human", stream=stream)
    engine_log(logging.WARNING).info("index.rebuilt")
    engine_log(logging.WARNING).warning("store.unavailable")
    structlog.get_logger().info("building")
    assert "index.rebuilt" not in stream.getvalue()
    assert "store.unavailable" in stream.getvalue()
    assert "building" in stream.getvalue()


def test_where_structlog_is_not_set_up_the_engine_speaks_through_the_logger_of_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "itinerary"):
        engine_log().info("node.started", node="here")
    assert caplog.messages == ["node.started node='here'"]


def test_what_the_driver_says_of_lost_connections_is_left_to_the_store(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json")
    logging.getLogger("psycopg").warning("error ignored terminating a pipeline")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("style", ["human", "json"])
@pytest.mark.parametrize(
    "value",
    ["x" * 50_000_000, [None] * 3_000_000, {"rows": ["y" * 50_000_000]}, ("z" * 50_000_000,), b"b" * 50_000_000],
    ids=["text", "list", "dict", "tuple", "bytes"],
)
def test_a_field_that_is_huge_is_shown_in_part_and_never_rendered_whole(value: object, style: str) -> None:
    stream = io.StringIO()
    configure_logging("json" if style == "json" else "human", stream=stream)
    tracemalloc.start()
    try:
        structlog.get_logger().info("done", rows=value, count=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 1024 * 1024
    assert len(stream.getvalue()) < 100_000
    assert "done" in stream.getvalue()
    assert "count" in stream.getvalue()
    assert "left out" in stream.getvalue() or "in part" in stream.getvalue()


def test_an_exception_with_a_huge_message_is_logged_in_part() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    error = ValueError("x" * 50_000_000)
    tracemalloc.start()
    structlog.get_logger().error("failed", exc_info=error)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 1024 * 1024
    assert json.loads(stream.getvalue())["exception"].startswith("ValueError: xxx")


def test_very_many_fields_are_counted_and_left_out() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    structlog.get_logger().info("done", **{f"field {number}": number for number in range(1_000)})
    event = json.loads(stream.getvalue())
    assert event["event"] == "done"
    assert event["fields_left_out"] > 800


@pytest.mark.spec("Q7", "secrets in the log")
def test_no_part_of_a_secret_is_left_where_a_field_was_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "".join(chr(ord("A") + number) for number in range(26))
    monkeypatch.setenv("ITINERARY_SECRET_TOKEN", secret)
    for shift in range(FIELD_MAX // 2 - 30, FIELD_MAX // 2 + 5):
        stream = io.StringIO()
        configure_logging("json", stream=stream)
        structlog.get_logger().info("done", text="." * shift + secret + "." * 100_000 + secret + "." * shift)
        assert not re.search("[A-Z]{4}", json.loads(stream.getvalue())["text"]), shift
