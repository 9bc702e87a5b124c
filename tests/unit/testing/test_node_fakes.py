"""What acts on the world is faked in a test node, or stops it (U11)."""

from __future__ import annotations

import asyncio

import pytest

from itinerary import Itinerary, Retry, every
from itinerary.errors import ClockError
from tests.unit.testing.start_node import Begin

pytestmark = pytest.mark.spec("U11")


def with_commands(app: Itinerary) -> Itinerary:
    etl = app.job("etl", every("1h"), retry=Retry(2, "1m"))
    etl.shell("compress", ["gzip", "-9", "out.csv"])
    etl.http("announce", "https://example.org/hook", method="POST")
    return app


def test_a_command_is_not_run_by_a_test_which_is_told_what_to_do(app: Itinerary, start_node: Begin) -> None:
    run = start_node(with_commands(app))
    with pytest.raises(ClockError, match=r"run.fake\('etl/compress'\)"):
        run.advance(hours=1)


def test_fakes_stand_in_for_tasks(app: Itinerary, start_node: Begin) -> None:
    run = start_node(with_commands(app))
    compress = run.fake("compress", raises=[OSError("disk full"), None], takes="30s")
    announce = run.fake("etl/announce", does=lambda ctx: {"job": ctx.job})
    run.advance(hours=1, minutes=5)
    report = run.history("etl").reports[0]
    assert report.outcome == "completed"
    assert [len(task.attempts) for task in report.tasks] == [2, 1]
    assert [ctx.attempt for ctx in compress.calls] == [1, 2]
    assert report.started_at is not None
    assert [(ctx.started_at - report.started_at).total_seconds() for ctx in announce.calls] == [120]
    assert "OSError: disk full" in run.history("etl").errors[0]


def test_a_fake_says_which_task_it_could_be(app: Itinerary, start_node: Begin) -> None:
    run = start_node(with_commands(app))
    with pytest.raises(ClockError, match="did you mean 'etl/compress'"):
        run.fake("etl/compres")
    with pytest.raises(ClockError, match="several tasks; say which: etl/compress, etl/announce"):
        run.fake("etl")


@pytest.mark.parametrize("opens", ["connection", "process"])
def test_a_coroutine_that_wants_a_socket_is_told_that_there_is_none(
    app: Itinerary, start_node: Begin, opens: str
) -> None:
    @app.job(every("1h"))
    async def outside() -> None:
        if opens == "connection":
            await asyncio.open_connection("127.0.0.1", 9)
        else:
            await asyncio.create_subprocess_exec("true")

    run = start_node(app)
    with pytest.raises(ClockError, match="wants a socket, a signal or a child process"):
        run.advance(hours=1)
    assert run.history("outside").statuses == ["failed"]
