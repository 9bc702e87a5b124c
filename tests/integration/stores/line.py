"""What a process under test tells the one that watches it: what it is about to ask of a store, and what was answered.

    will n [traces]     it is going to ask for something; if that happens, these traces of it are in the store
    did n [traces]      it was answered: from now on the traces must be there, and those that came with the answer
    not n               it was answered with a refusal, and nothing of it may be there
    failed n error      it was told that it could not be done, and is going to ask again

Each is a line of JSON on a socket. Of a process that was killed the watcher has everything that it had said.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, TypeVar

from itinerary.errors import StoreError

__all__ = ["Line", "Watched"]

T = TypeVar("T")

_PATIENCE: Final = 60.0
"""Seconds after which a process that says nothing has hung."""


class Line:
    """The end of the process that is watched."""

    def __init__(self, end: socket.socket, *, retries: bool = False) -> None:
        self._end = end
        self._retries = retries
        self._numbers = count(1)
        self._file = end.makefile("rb")

    def say(self, **what: Any) -> None:
        self._end.sendall(json.dumps(what).encode() + b"\n")

    def handle(self) -> Any:
        """What the watcher says; waits for it."""
        return json.loads(self._file.readline())

    async def ask(
        self,
        traces: Sequence[str],
        call: Callable[[], Awaitable[T]],
        found: Callable[[T], Sequence[str] | None] = lambda _: (),
    ) -> T:
        """Make a call, and say so before and after. `found` has more traces of an answer, or None for a refusal."""
        number = next(self._numbers)
        self.say(will=number, traces=list(traces))
        while True:
            try:
                answer = await call()
            except StoreError as error:
                if not self._retries:
                    raise
                self.say(failed=number, error=f"{type(error).__name__}: {error}")
                continue
            more = found(answer)
            if more is None:
                self.say(refused=number)
            else:
                self.say(did=number, traces=list(more))
            return answer


class Watched:
    """The other end, and what has been heard there."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._rest = b""
        self._wills: dict[int, list[str]] = {}
        self.acknowledged: list[str] = []
        """Traces that must be in the store."""
        self.failures: list[str] = []
        self.words: list[dict[str, Any]] = []
        """Everything else that was said."""
        self.is_over = False

    @property
    def open_calls(self) -> list[list[str]]:
        """The traces of each call that was not answered: all of them are in the store, or none."""
        return [traces for traces in self._wills.values() if traces]

    def say(self, **what: Any) -> None:
        self._end.sendall(json.dumps(what).encode() + b"\n")

    def listen(self, seconds: float) -> None:
        """Take in what is said for so long, or until it is over."""
        until = time.monotonic() + seconds
        while not self.is_over and self._take(until - time.monotonic()):
            pass

    def listen_to_the_end(self) -> None:
        """Take in everything until the process has ended."""
        while not self.is_over:
            assert self._take(_PATIENCE), "the process under test has hung"

    def word(self, name: str) -> Any:
        """Wait for the process to say this, and return what."""
        while True:
            for place, what in enumerate(self.words):
                if name in what:
                    del self.words[place]
                    return what[name]
            assert not self.is_over, f"the process ended before it said {name!r}: {self.words}"
            assert self._take(_PATIENCE), f"the process under test does not say {name!r}"

    def close(self) -> None:
        self._end.close()

    def _take(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._end], [], [], max(0.0, seconds))
        if not readable:
            return False
        try:
            data = self._end.recv(1 << 16)
        except ConnectionResetError:  # it was killed before it had read what we said
            data = b""
        self.is_over = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for what in _read(lines):
            self._note(what)
        return True

    def _note(self, what: dict[str, Any]) -> None:
        if "will" in what:
            self._wills[what["will"]] = what["traces"]
        elif "did" in what:
            self.acknowledged += self._wills.pop(what["did"]) + what["traces"]
        elif "refused" in what:
            del self._wills[what["refused"]]
        elif "failed" in what:
            self.failures.append(what["error"])
        else:
            self.words.append(what)


def _read(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        yield json.loads(line)
