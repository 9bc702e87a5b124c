"""What a task printed: text, never control (Q7), and of too much of it the end.

A command may print ten gigabytes. Twice OUTPUT_MAX is the most that is ever held, and what is left of it says how much
is missing. Bytes that are no UTF-8, and characters that a terminal would obey, become U+FFFD.
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
"""What is kept of a task's output, in bytes (Q4)."""

_BLOCK: Final = 65_536
"""How much is made text of at a time, in bytes."""
_NOTE_MAX: Final = 100
_ENDING_MAX: Final = 1_000
"""How far from the end something is looked for that is not the task's, in bytes."""


class Tail:
    """The last bytes of a stream."""

    def __init__(self, limit: int = OUTPUT_MAX) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._dropped = 0

    def __len__(self) -> int:
        """How many bytes have come, kept or not."""
        return self._dropped + len(self._kept)

    def write(self, chunk: bytes) -> None:
        """Add to the end. What falls out at the beginning is moved once for each time the limit is filled."""
        self._kept += chunk
        if len(self._kept) > 2 * self._limit:
            self._drop(len(self._kept) - self._limit)

    def cut(self, ending: re.Pattern[bytes]) -> None:
        """Forget the end of it, if that is not the task's: the pattern says what it looks like, to the last byte."""
        if found := ending.search(self._kept, max(0, len(self._kept) - _ENDING_MAX)):
            del self._kept[found.start() :]

    def clear(self) -> None:
        """Forget what came: it comes once more."""
        self._kept.clear()
        self._dropped = 0

    def text(self, secrets: Mapping[str, str] | None = None) -> str | None:
        """What came, as text of at most the limit, in bytes of UTF-8; None if nothing did.

        `secrets` are values, by name, that must not be seen: where one was printed, its name stands instead.
        """
        if not len(self):
            return None
        data, dropped = bytes(self._kept[-self._limit :]), len(self) > min(len(self._kept), self._limit)
        hidden = {value.encode(): name for name, value in (secrets or {}).items() if value}
        for value, name in sorted(hidden.items(), key=lambda item: -len(item[0])):
            data = data.replace(value, f"[secret {name}]".encode())
        room = self._limit - _NOTE_MAX
        if dropped and hidden:
            data = data[max(map(len, hidden)) - 1 :]  # the first of it may be the end of a secret
        text = "".join(_cleaned(data))
        encoded = text.encode()
        if not dropped and len(encoded) <= self._limit:
            return text
        kept = encoded[-room:].decode("utf-8", "ignore")
        return f"… {max(len(self) - len(kept.encode()), 1)} bytes before this are not kept …\n{kept}"

    @property
    def takes_long(self) -> bool:
        """True if making text of it takes so long that a loop should leave that to a thread."""
        return len(self._kept) > _BLOCK

    def _drop(self, count: int) -> None:
        del self._kept[:count]
        self._dropped += count


def when_text_is_made(tail: Tail, secrets: Mapping[str, str], then: Callable[[str | None], None]) -> None:
    """Call `then` with the text of a tail, on the running loop: at once if it is short, else when a thread has made it.

    Nothing may be written to the tail any more.
    """
    if not tail.takes_long:
        then(tail.text(secrets))
        return
    try:
        made = asyncio.get_running_loop().run_in_executor(None, tail.text, secrets)
    except RuntimeError:  # the loop is being closed, and starts no thread any more
        then(tail.text(secrets))
        return
    made.add_done_callback(lambda _: None if made.cancelled() else then(_text_of(made)))


def _text_of(made: asyncio.Future[str | None]) -> str | None:
    """Return the text that a thread has made. An attempt must end, whatever became of its text."""
    error = made.exception()
    return made.result() if error is None else f"the output could not be kept: {type(error).__name__}: {error}"


def _cleaned(data: bytes) -> Iterator[str]:
    """Bytes as clean text, block by block: no other thread of the process runs while one of them is looked at."""
    decoder, held = getincrementaldecoder("utf-8")("replace"), ""
    for start in range(0, max(len(data), 1), _BLOCK):
        text = held + decoder.decode(data[start : start + _BLOCK], final=start + _BLOCK >= len(data))
        held = ""
        if text.endswith("\r") and start + _BLOCK < len(data):
            text, held = text[:-1], "\r"  # it may be half of a line's end
        yield clean_text(text, len(text))
