"""The command line as a process: what it prints, line by line, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Self

import itinerary

PATIENCE = 60.0
"""How long something that must happen may take, before a test says that it did not."""


class Program:
    """A running `itinerary …`. It is killed when the test is done with it, if it has not ended by then."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        web: str = "",
        within: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        """`web` is where its dashboard is; there is none otherwise, since loading it takes a second. `within` is the
        command that runs it, if it is not run directly. `env` are further environment variables."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ITINERARY_")}
        environment["ITINERARY_WEB"] = web
        environment["PYTHONPATH"] = str(Path(itinerary.__file__).parent.parent)
        environment |= env or {}
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [*within, sys.executable, "-m", "itinerary", *arguments],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output: list[str] = []
        self.errors: list[str] = []
        self._news: SimpleQueue[str] = SimpleQueue()
        self._readers = [self._reader(self.process.stdout, self.output), self._reader(self.process.stderr, self.errors)]

    def _reader(self, stream: IO[str] | None, lines: list[str]) -> threading.Thread:
        assert stream is not None, "it has a pipe"

        def read(stream: IO[str] = stream) -> None:
            with stream:
                for line in stream:
                    lines.append(line.rstrip("\n"))
                    self._news.put(line)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)

    def until(self, is_so: Callable[[str], bool]) -> str:
        """Wait for a line."""
        while True:
            try:
                line = self._news.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"it never came; there is {self.output} and {self.errors}") from None
            if is_so(line):
                return line

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit code, when it has ended."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        return code
