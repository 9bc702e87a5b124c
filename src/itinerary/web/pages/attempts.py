"""The attempts of an occurrence: a waterfall of their times, and their output.

The output of an attempt may be a megabyte. The page shows its end, within a limit for all attempts together; a link
leads to the whole output. Sizes count the escaped HTML: a quotation mark takes five bytes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from markupsafe import Markup, escape

from itinerary.model.states import TaskState
from itinerary.read.runs import AttemptSeen, RunDetail, TaskSeen
from itinerary.schedules.instants import microseconds_of
from itinerary.web.charts.marks import Tone
from itinerary.web.charts.waterfall import ChartSpan, bar
from itinerary.web.pages.templates import drawn

__all__ = ["AttemptDrawn", "AttemptOutput", "attempts_of", "said_by", "tail", "waterfall"]

_ATTEMPTS_MAX: Final = 60
_SAID_MAX: Final = 20
_OUTPUT_MAX: Final = 100_000
"""The maximum size of one attempt's output on the page, in bytes."""
_ALL_OUTPUT_MAX: Final = 110_000
_ERROR_MAX: Final = 10_000
_ALL_ERRORS_MAX: Final = 20_000
_RESULT_MAX: Final = 4_000
_ALL_RESULTS_MAX: Final = 8_000
_TONES: Final = {
    TaskState.SUCCESS: Tone.GOOD,
    TaskState.FAILED: Tone.BAD,
    TaskState.TIMEOUT: Tone.BAD,
    TaskState.CANCELLED: Tone.WARN,
    TaskState.RUNNING: Tone.BUSY,
}


class AttemptDrawn(msgspec.Struct, frozen=True):
    """An attempt with its start and end, in microseconds."""

    task: TaskSeen
    attempt: AttemptSeen
    start: int | None
    end: int | None
    is_last: bool
    """True if this is the latest attempt of its task."""


class AttemptOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The visible output of an attempt."""

    task: str
    place: int
    number: int
    status: TaskState
    is_last: bool
    error: str
    error_left_out: int
    """The number of characters of the error that are not shown."""
    output: str
    output_left_out: int
    has_output: bool
    result: str = ""
    result_left_out: int = 0


def attempts_of(detail: RunDetail, now: int) -> list[AttemptDrawn]:
    """Return all attempts, task by task.

    A store may have no start of the first attempt; the start of the occurrence is used then.
    """
    found = []
    for task in detail.tasks:
        for attempt in task.attempts:
            began = attempt.started_at or (detail.run.started_at if attempt.number == 1 else None)
            start = None if began is None else microseconds_of(began)
            ended = attempt.ended_at or (detail.run.ended_at if attempt.status is not TaskState.RUNNING else None)
            end = now if ended is None else microseconds_of(ended)
            found.append(
                AttemptDrawn(
                    task, attempt, start, None if start is None else max(end, start), attempt is task.attempts[-1]
                )
            )
    return found


def waterfall(detail: RunDetail, attempts: Sequence[AttemptDrawn], now: int) -> str:
    """Render the times of the attempts, one row each."""
    known = [(one.start, one.end) for one in attempts if one.start is not None and one.end is not None]
    start = min((start for start, _ in known), default=now)
    span = ChartSpan(start, max([end for _, end in known], default=start))
    rows = [(one, _bar(span, one), _after(span, one)) for one in attempts[-_ATTEMPTS_MAX:]]
    idle = [task for task in detail.tasks if not task.attempts]
    return drawn(
        "run/tasks.html",
        rows=rows,
        left_out=max(len(attempts) - _ATTEMPTS_MAX, 0),
        idle=idle[:_ATTEMPTS_MAX],
        total=(span.end - span.start) / 1_000_000 if known else None,
    )


def _bar(span: ChartSpan, one: AttemptDrawn) -> Markup:
    if one.start is None or one.end is None:
        return Markup()
    return bar(span, one.start, one.end, _TONES.get(one.attempt.status, Tone.IDLE))


def _after(span: ChartSpan, one: AttemptDrawn) -> float | None:
    """Return the start of an attempt, in seconds after the first one."""
    return None if one.start is None else (one.start - span.start) / 1_000_000


def said_by(attempts: Sequence[AttemptDrawn]) -> list[AttemptOutput]:
    """Return the visible outputs in the order of the tasks. If there is not enough room, the newest are kept."""
    outputs, errors, results = _ALL_OUTPUT_MAX, _ALL_ERRORS_MAX, _ALL_RESULTS_MAX
    found: list[AttemptOutput] = []
    for one in reversed(attempts[-_ATTEMPTS_MAX:]):
        attempt, raw = one.attempt, one.task.result
        result = "" if raw is None or not one.is_last else bytes(raw).decode(errors="replace")
        if not attempt.output and not attempt.error and not result:
            continue
        if len(found) == _SAID_MAX:
            break
        output = tail(attempt.output or "", min(_OUTPUT_MAX, outputs))
        error = tail(attempt.error or "", min(_ERROR_MAX, errors))
        shown = tail(result, min(_RESULT_MAX, results), is_head=True)
        outputs -= _weight(output)
        errors -= _weight(error)
        results -= _weight(shown)
        found.append(
            AttemptOutput(
                task=one.task.name,
                place=one.task.place,
                number=attempt.number,
                status=attempt.status,
                is_last=one.is_last,
                error=error,
                error_left_out=len(attempt.error or "") - len(error),
                output=output,
                output_left_out=len(attempt.output or "") - len(output),
                has_output=bool(attempt.output),
                result=shown,
                result_left_out=len(result) - len(shown),
            )
        )
    return found[::-1]


def tail(text: str, room: int, *, is_head: bool = False) -> str:
    """Return the end of a text, or its beginning, that takes at most `room` bytes on a page."""
    room = max(room, 0)
    kept = text[:room] if is_head else text[-room:] if room else ""
    while (weight := _weight(kept)) > room:
        length = min(len(kept) - 1, len(kept) * room // weight)
        kept = kept[:length] if is_head else kept[len(kept) - length :]
    return kept


def _weight(text: str) -> int:
    return len(str(escape(text)).encode(errors="replace"))
