"""Tracebacks of our own bugs on the terminal, without the values that no output may show (see `itinerary.masking`)."""

from __future__ import annotations

import sys
import threading
import traceback

from itinerary.masking import without_hidden

__all__ = ["print_failure", "print_thread_failure"]


def print_failure(error: BaseException) -> None:
    """Print the traceback of an exception that no caller has handled."""
    print(without_hidden("".join(traceback.format_exception(error))), end="", file=sys.stderr, flush=True)


def print_thread_failure(failed: threading.ExceptHookArgs) -> None:
    """Print the traceback of an exception that ended a thread. The program continues."""
    if failed.exc_value is None or isinstance(failed.exc_value, SystemExit):
        return
    name = "a thread" if failed.thread is None else f"thread {failed.thread.name}"
    print(f"Exception in {name}:", file=sys.stderr)
    print_failure(failed.exc_value)
