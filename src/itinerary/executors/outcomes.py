"""The outcome of a function: a value, and text that people can read.

    returned a value       Succeeded, with the value as JSON; other values are dropped, and the log says so
    raised                 Failed, with the traceback from the task's own code on, at most ERROR_MAX characters
    ended after a stop     Stopped

The cost of a value or an exception depends only on the part that is kept. Both are measured before they are encoded or
formatted (`model.json_size`, `tracebacks`), where the task ran and never on the node's loop.

Only this module handles every exception (`except BaseException`): an attempt ends here, and becomes a value.
"""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from itinerary.errors import ItineraryError, RecordError
from itinerary.executors.cancellation import CancelFlags, TaskCancelled
from itinerary.executors.tracebacks import traceback_text
from itinerary.masking import without_hidden
from itinerary.model.attempts import AttemptInfo, Failed, Outcome, Stopped, Succeeded
from itinerary.model.codec import result_json
from itinerary.model.exception_text import kind_name, message_of
from itinerary.model.retries import exception_names
from itinerary.model.text import MESSAGE_MAX, clean_text

__all__ = ["ERROR_MAX", "could_not_begin", "failure", "raised", "returned"]

ERROR_MAX: Final = MESSAGE_MAX
"""The longest error that is kept, in characters. A longer one is cut in the middle."""

_NOTHING: Final = Succeeded()
_OURS: Final = str(Path(__file__).parent)


def returned(value: Any, facts: AttemptInfo, output: str | None = None) -> Outcome:
    """Return the outcome of a function that returned."""
    if value is None:
        return _NOTHING if output is None else Succeeded(output=output)
    if inspect.iscoroutine(value):
        value.close()
        return Failed(f"{facts.task} returned a coroutine that nobody awaits; make it an async def", output=output)
    try:
        return Succeeded(result_json(value), output)
    except RecordError as error:
        import structlog  # noqa: PLC0415 - slow to import, and worker processes hardly ever need it

        structlog.stdlib.get_logger().warning("task.result_not_kept", job=facts.job, task=facts.task, why=str(error))
        return Succeeded(output=output)


def raised(error: BaseException, flags: CancelFlags, output: str | None = None) -> Outcome:
    """Return the outcome of a function that raised."""
    if flags.is_stop_asked and isinstance(error, asyncio.CancelledError | TaskCancelled):
        return Stopped(output=output)
    return failure(error, output)


def failure(error: BaseException, output: str | None = None) -> Failed:
    """Return an exception as text for people, with the names that `never_retry` compares."""
    return Failed(clean_text(without_hidden(_traceback(error)), ERROR_MAX), exception_names(type(error)), output)


def could_not_begin(error: Exception) -> Failed:
    """Return the outcome of an attempt that could not begin. Only errors of other packages need a traceback."""
    if isinstance(error, ItineraryError):
        return Failed(without_hidden(message_of(error)), exception_names(type(error)))
    return failure(error)


def _traceback(error: BaseException) -> str:
    try:
        return traceback_text(error, _without_ours(error.__traceback__))
    except Exception as second:  # noqa: BLE001 - an exception that cannot be shown must not hide that it was raised
        return f"{kind_name(type(error))}, which cannot be shown: {kind_name(type(second))}"


def _without_ours(at: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first frame outside this package; the whole traceback if there is none."""
    first = at
    while first is not None and first.tb_frame.f_code.co_filename.startswith(_OURS):
        first = first.tb_next
    return at if first is None else first
