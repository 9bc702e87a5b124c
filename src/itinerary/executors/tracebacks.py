"""An exception as text for people, at a cost that is limited by the size of the kept text.

    ordinary       the text of Python's own `traceback`
    anything else  the same parts, cut before they are formatted:
                   messages and notes, frames of a deep recursion, links of a long chain of causes, parts of a group

Python's `traceback` formats everything: a message of a gigabyte four times, a group of a million exceptions one by one.
The check whether an exception is ordinary looks at a limited number of its parts.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator
from itertools import islice
from textwrap import indent
from types import TracebackType
from typing import Final

from itinerary.model.exception_text import is_heavy, is_light, kind_name, message_of
from itinerary.model.text import MESSAGE_MAX, clean_text
from itinerary.model.validators import exception_name

__all__ = ["traceback_text"]

_FRAMES_MAX: Final = 100
"""The most frames of one traceback. A longer one is cut in the middle."""
_LINKS_MAX: Final = 10
"""The most exceptions of a chain. A longer one is cut between its last part (the failure) and its first (the cause)."""
_WALKED_MAX: Final = 100_000
"""The most links or frames to follow in order to find the other end."""
_PARTS_MAX: Final = 10
_DEPTH_MAX: Final = 3
_NOTES_MAX: Final = 20
_NAME_MAX: Final = 500

_BECAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"

Link = tuple[BaseException, str]
"""An exception, and the text that links it to the exception that it led to."""


def traceback_text(error: BaseException, at: TracebackType | None) -> str:
    """Format an exception with its causes.

    Args:
        error: The exception.
        at: The first frame of its own traceback to show.
    """
    if _is_ordinary(error, at):
        return "".join(traceback.format_exception(type(error), error, at)).rstrip()
    return _chain_text(error, at, 0).rstrip()


# -- ordinary or not ---------------------------------------------------------------------------------------------------


def _is_ordinary(error: BaseException, at: TracebackType | None) -> bool:
    """True if Python's own `traceback` formats this at a small cost."""
    seen, waiting = 0, [(error, at)]
    while waiting:
        one, its = waiting.pop()
        seen += 1
        if seen > _LINKS_MAX or not _is_small(one, its):
            return False
        linked = [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            if len(one.exceptions) > _PARTS_MAX:
                return False
            linked += one.exceptions
        waiting += [(other, other.__traceback__) for other in linked if other is not None]
    return True


def _is_small(error: BaseException, at: TracebackType | None) -> bool:
    notes = getattr(error, "__notes__", None)
    return (
        sum(1 for _ in islice(_frames(at), _FRAMES_MAX + 1)) <= _FRAMES_MAX
        and len(type(error).__qualname__) <= _NAME_MAX
        and len(message_of(error)) < MESSAGE_MAX // 2
        and (isinstance(error, BaseExceptionGroup) or is_light(error))
        and not is_heavy(notes, MESSAGE_MAX)
    )


def _frames(at: TracebackType | None) -> Iterator[TracebackType]:
    while at is not None:
        yield at
        at = at.tb_next


# -- formatted in part -------------------------------------------------------------------------------------------------


def _chain_text(error: BaseException, at: TracebackType | None, depth: int) -> str:
    links, left_out = _links(error)
    texts = [_one_text(one, one.__traceback__, depth) + led for one, led in links]
    if left_out:
        texts.insert(_LINKS_MAX // 2, f"… {left_out} exceptions of this chain are left out …\n" + links[-1][1])
    return "".join(reversed(texts)) + _one_text(error, at, depth)


def _links(error: BaseException) -> tuple[list[Link], int]:
    """Return the causes of an exception, the nearest first, and the number left out between the two halves."""
    nearest: list[Link] = []
    farthest: deque[Link] = deque(maxlen=_LINKS_MAX // 2)
    seen, left_out = {id(error)}, 0
    for _ in range(_WALKED_MAX):
        if error.__cause__ is not None:
            error, led = error.__cause__, _BECAUSE
        elif error.__context__ is not None and not error.__suppress_context__:
            error, led = error.__context__, _DURING
        else:
            break
        if id(error) in seen:
            break
        seen.add(id(error))
        if len(nearest) < _LINKS_MAX // 2:
            nearest.append((error, led))
        else:
            left_out += len(farthest) == farthest.maxlen
            farthest.append((error, led))
    return [*nearest, *farthest], left_out


def _one_text(error: BaseException, at: TracebackType | None, depth: int) -> str:
    kind = type(error)
    name = exception_name(kind) if len(kind.__qualname__) <= _NAME_MAX else kind_name(kind)
    text = _stack_text(at) + f"{name}: {message_of(error)}\n"
    text += _notes_text(error)
    if isinstance(error, BaseExceptionGroup):
        text += _group_text(error, depth + 1)
    return text


def _stack_text(at: TracebackType | None) -> str:
    if at is None:
        return ""
    frames = list(islice(_frames(at), _WALKED_MAX))
    half = _FRAMES_MAX // 2
    lines = ["Traceback (most recent call last):\n"]
    if len(frames) <= _FRAMES_MAX:
        return "".join(lines + traceback.format_tb(at))
    lines += traceback.format_tb(at, half)
    lines.append(f"  … {len(frames) - 2 * half} frames are left out …\n")
    lines += traceback.format_tb(frames[-half], half)
    return "".join(lines)


def _notes_text(error: BaseException) -> str:
    notes = getattr(error, "__notes__", None)
    if type(notes) is not list:
        return ""
    shown = "".join(f"{clean_text(note)}\n" for note in notes[:_NOTES_MAX] if isinstance(note, str))
    left_out = len(notes) - _NOTES_MAX
    return shown + (f"… {left_out} notes are left out …\n" if left_out > 0 else "")


def _group_text(group: BaseExceptionGroup[BaseException], depth: int) -> str:
    if depth > _DEPTH_MAX:
        return f"… {len(group.exceptions)} sub-exceptions are nested too deeply to be shown …\n"
    text = ""
    for number, part in enumerate(group.exceptions[:_PARTS_MAX], start=1):
        text += f"  ---------------- {number} ----------------\n"
        text += indent(clean_text(_chain_text(part, part.__traceback__, depth)), "  | ")
    left_out = len(group.exceptions) - _PARTS_MAX
    return text + (f"  … {left_out} sub-exceptions are left out …\n" if left_out > 0 else "")
