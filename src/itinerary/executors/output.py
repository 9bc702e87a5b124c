"""The output of a task: text without control characters (Q7), and only the end of a long output.

A command may print ten gigabytes. The node holds at most twice OUTPUT_MAX, and the kept text says how much is missing.
Bytes that are not UTF-8, and characters that would control a terminal, become U+FFFD.
"""

from __future__ import annotations

import asyncio
import re
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from itinerary.model.text import clean_text

__all__ = ["OUTPUT_MAX", "Tail", "when_text_is_made"]

OUTPUT_MAX: Final = 1_048_576
"""The limit for the kept output of a task, in bytes (Q4)."""

_BLOCK: Final = 65_536
"""Bytes that are decoded at a time."""
_NOTE_MAX: Final = 100
_ENDING_MAX: Final = 1_000
"""Bytes at the end in which to search for text that is not the task's."""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = OUTPUT_MAX) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._dropped = 0

    def __len__(self) -> int:
        """Return how many bytes were written, kept or not."""
        return self._dropped + len(self._kept)

    def write(self, chunk: bytes) -> None:
        """Append bytes. Old bytes are removed only once each time the limit is filled."""
        self._kept += chunk
        if len(self._kept) > 2 * self._limit:
            self._drop(len(self._kept) - self._limit)

    def cut(self, ending: re.Pattern[bytes]) -> None:
        """Remove the end of the output if it matches a pattern, and is therefore not the task's own output."""
        if found := ending.search(self._kept, max(0, len(self._kept) - _ENDING_MAX)):
            del self._kept[found.start() :]

    def clear(self) -> None:
        """Remove all bytes: the same output will be written again."""
        self._kept.clear()
        self._dropped = 0

    def text(self, secrets: Mapping[str, str] | None = None) -> str | None:
        """Return the output as text of at most the limit, in bytes of UTF-8; None if there is no output.

        Args:
            secrets: Values by name that must not be shown. In the text, the name replaces the value.
        """
        if not len(self):
            return None
        data, dropped = bytes(self._kept[-self._limit :]), len(self) > min(len(self._kept), self._limit)
        hidden = {value.encode(): name for name, value in (secrets or {}).items() if value}
        for value, name in sorted(hidden.items(), key=lambda item: -len(item[0])):
            data = data.replace(value, f"[secret {name}]".encode())
        room = self._limit - _NOTE_MAX
        if dropped and hidden:
            data = data[max(map(len, hidden)) - 1 :]  # the first bytes may be the end of a secret
        text = "".join(_cleaned(data))
        encoded = text.encode()
        if not dropped and len(encoded) <= self._limit:
            return text
        kept = encoded[-room:].decode("utf-8", "ignore")
        return f"… {max(len(self) - len(kept.encode()), 1)} bytes before this are not kept …\n{kept}"

    @property
    def takes_long(self) -> bool:
        """True if `text` is slow and should run in a thread instead of the loop."""
        return len(self._kept) > _BLOCK

    def _drop(self, count: int) -> None:
        del self._kept[:count]
        self._dropped += count


def when_text_is_made(tail: Tail, secrets: Mapping[str, str], then: Callable[[str | None], None]) -> None:
    """Call `then` with the text of a tail, on the running loop.

    A short text is made at once, and a long one in a thread. Write nothing more to the tail.
    """
    if not tail.takes_long:
        then(tail.text(secrets))
        return
    try:
        made = asyncio.get_running_loop().run_in_executor(None, tail.text, secrets)
    except RuntimeError:  # the loop is closing, and starts no threads
        then(tail.text(secrets))
        return
    made.add_done_callback(lambda _: None if made.cancelled() else then(_text_of(made)))


def _text_of(made: asyncio.Future[str | None]) -> str | None:
    """Return the text from a thread. An attempt must end even if its text could not be made."""
    error = made.exception()
    return made.result() if error is None else f"the output could not be kept: {type(error).__name__}: {error}"


def _cleaned(data: bytes) -> Iterator[str]:
    """Yield bytes as clean text, in blocks: while one block is decoded, no other thread of the process runs."""
    decoder, held = getincrementaldecoder("utf-8")("replace"), ""
    for start in range(0, max(len(data), 1), _BLOCK):
        text = held + decoder.decode(data[start : start + _BLOCK], final=start + _BLOCK >= len(data))
        held = ""
        if text.endswith("\r") and start + _BLOCK < len(data):
            text, held = text[:-1], "\r"  # it may be the first half of a line ending
        yield clean_text(text, len(text))
