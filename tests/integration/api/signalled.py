"""Programs that get signals at bad moments: `python signalled.py STORY STORE`. Each story prints "now" when it is time.

What each of them waits for never comes: only a signal, or a deadline, ends it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from itinerary import Itinerary, every
from itinerary.config.log_setup import configure_logging
from itinerary.node.thread import NodeThread
from itinerary.records import RecordBatch
from itinerary.records.service import RecordsService
from itinerary.stores.store import EngineStore

_WAITING = frozenset({"wait", "_wait_for_tstate_lock", "join", "select", "poll"})


def now(_: object = None) -> None:
    print("now", flush=True)


def is_waiting() -> bool:
    """Whether the main thread waits, and not for the start of another thread."""
    main = threading.main_thread().ident
    assert main is not None
    frame: FrameType | None = sys._current_frames()[main]
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names[0] in _WAITING and "begin" not in names


def to_another_thread(number: signal.Signals) -> Callable[..., None]:
    """Send this process a signal that another thread gets, as the kernel may decide, once the main thread waits."""

    def send() -> None:
        while not is_waiting():
            time.sleep(0.01)
        now()
        signal.pthread_kill(threading.get_ident(), number)

    def begin(_: object = None) -> None:
        threading.Thread(target=send, daemon=True).start()

    return begin


def made(url: str, **settings: Any) -> Itinerary:
    configure_logging()
    return Itinerary(
        store=url, name="here", web="", **{"kill_grace": "200ms", "shutdown_grace_period": "1s", **settings}
    )


async def for_ever() -> None:
    await asyncio.Event().wait()


# -- signals that another thread gets ----------------------------------------------------------------------------------


def a_node_that_runs(url: str) -> int:
    return made(url).run(to_another_thread(signal.SIGTERM))


def a_block_that_asks(url: str) -> int:
    app = made(url)
    with app.running():
        to_another_thread(signal.SIGINT)()
        try:
            app.blocking(for_ever())
        except KeyboardInterrupt:
            return 0
    return 1


def a_block_that_is_left(url: str) -> int:
    app = made(url, shutdown_grace_period="1h", kill_grace="1h")
    has_begun = threading.Event()

    @app.job(every("1s"))
    def stubborn() -> None:
        has_begun.set()
        threading.Event().wait()

    try:
        with app.running():
            has_begun.wait()
            to_another_thread(signal.SIGINT)()
    except KeyboardInterrupt:
        return 0
    return 1


def a_command(url: str) -> int:
    from itinerary.cli.run_command import run_command  # noqa: PLC0415 - the others do not need the command line

    to_another_thread(signal.SIGINT)()
    try:
        run_command(for_ever())
    except KeyboardInterrupt:
        return 0
    return 1


# -- the first moments -------------------------------------------------------------------------------------------------


def a_signal_before_the_engine_has_a_thread(url: str) -> int:
    start = threading.Thread.start

    def begun(thread: threading.Thread) -> None:
        if thread.name == "itinerary-engine":
            now()
            os.kill(os.getpid(), signal.SIGTERM)
        start(thread)

    threading.Thread.start = begun  # type: ignore[method-assign, assignment]
    return made(url).run()


def a_signal_before_the_engine_has_a_loop(url: str) -> int:
    live = NodeThread._live

    def hurried(engine: NodeThread) -> None:
        now()
        os.kill(os.getpid(), signal.SIGTERM)
        while not engine._is_ending:
            time.sleep(0.01)
        live(engine)

    NodeThread._live = hurried  # type: ignore[method-assign, assignment]
    return made(url).run()


# -- what does not end -------------------------------------------------------------------------------------------------


def a_blocked_engine(url: str, **settings: Any) -> int:
    app = made(url, **settings)

    def block(_: object) -> None:
        now()
        threading.Event().wait()

    @app.job(every("1s"))
    async def tick() -> None:
        """Something happens, and the observer hears of it, on the engine's loop."""

    app.observe(block)
    return app.run()


def a_blocked_engine_with_time(url: str) -> int:
    return a_blocked_engine(url, shutdown_grace_period="1h")


def a_store_that_does_not_close(url: str) -> int:
    EngineStore.close = lambda _: for_ever()  # type: ignore[method-assign, assignment]
    return made(url).run(now)


def a_block_whose_store_does_not_close(url: str) -> int:
    EngineStore.close = lambda _: for_ever()  # type: ignore[method-assign, assignment]
    with made(url).running():
        pass
    return 0


def a_part_that_ignores_its_cancellation(url: str) -> int:
    async def deaf(_: RecordsService) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await for_ever()

    RecordsService.run = deaf  # type: ignore[method-assign, assignment]
    app = made(url, shutdown_grace_period="30s")  # nothing runs that could need it
    app.records("folio", partition_by="hotel").handler(lambda _: None)
    return app.run(now)


def a_handler_that_never_returns(url: str) -> int:
    app = made(url)
    desk = app.records("folio", partition_by="hotel", enable_early_morning_skip=False, startup_delay=0)

    @desk.handler
    def work(batch: RecordBatch) -> None:
        now()
        threading.Event().wait()

    async def produce() -> None:
        await desk.append("RecordCreated", record="F-1", hotel="lisbon")
        await desk.process_scheduled_records()

    return app.run(lambda _: app.blocking(produce()))


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](sys.argv[2]))
