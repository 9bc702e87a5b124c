"""The message to a function in a pod, and its answer (K6).

    ITINERARY_POD_RUN                      the function and its context, as JSON, in the environment of the container
    termination message of the container   how the function ended: at most 4 kB, the limit of Kubernetes

A result or a traceback that is too long for the message is complete in the log of the pod. The message has the
beginning and the end of such a traceback, but no part of such a result, because part of a result is useless. The log is
text for people, and the node reads no data from it (Q7).
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from itinerary.errors import ConfigError
from itinerary.executors.registry import split_name
from itinerary.executors.worker_protocol import AnswerStatus, CallRequest
from itinerary.model.attempts import Assignment, Failed, Outcome, Stopped, Succeeded
from itinerary.model.text import clean_text

__all__ = [
    "COMMAND",
    "LETTER_MAX",
    "RUN_VARIABLE",
    "PodMessage",
    "addressed",
    "letter_of",
    "opened",
    "read_run",
    "sealed",
]

RUN_VARIABLE: Final = "ITINERARY_POD_RUN"
COMMAND: Final = ("python", "-m", "itinerary.executors.pods.entrypoint")
"""The command in the container of a function, unless its task has another command with the same effect."""
LETTER_MAX: Final = 4_096
_RUN_MAX: Final = 120_000
"""The longest value of a variable in bytes. The limit of Linux is 131,072."""


class PodMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a function ended."""

    ending: AnswerStatus
    result: str | None = None
    error: str = ""
    names: tuple[str, ...] = ()
    result_bytes: int = 0
    """The size of a result that is too long for this message."""


_LETTERS: Final = msgspec.json.Decoder(PodMessage)
_RUNS: Final = msgspec.json.Decoder(CallRequest)


def addressed(assignment: Assignment, prefixes: tuple[str, ...] = ()) -> str:
    """Return the message to a function.

    Args:
        assignment: The attempt.
        prefixes: The modules that the node allows, besides the function's own module.

    Raises:
        ConfigError: If the message is too long.
    """
    name = assignment.run["python"]
    run = msgspec.json.encode(CallRequest(name, assignment.key, assignment.facts, (split_name(name)[0], *prefixes), {}))
    if len(run) > _RUN_MAX:
        raise ConfigError(
            f"python: the context of {name} is {len(run)} bytes, and a pod takes {_RUN_MAX}; its window has too many "
            "changes of its time zones in it"
        )
    return run.decode()


def read_run(text: str) -> CallRequest:
    """Read the message to a function, in the pod."""
    return _RUNS.decode(text)


def letter_of(outcome: Outcome) -> PodMessage:
    """Return the answer for an outcome."""
    match outcome:
        case Succeeded(result=result):
            return PodMessage(AnswerStatus.SUCCEEDED, result)
        case Failed(error=error, names=names):
            return PodMessage(AnswerStatus.FAILED, error=error, names=names)
        case Stopped():
            return PodMessage(AnswerStatus.STOPPED)
        case _:
            assert_never(outcome)


def sealed(letter: PodMessage) -> bytes:
    """Encode an answer, cut to the limit of Kubernetes."""
    data = msgspec.json.encode(letter)
    if len(data) <= LETTER_MAX:
        return data
    if letter.result is not None:
        return msgspec.json.encode(PodMessage(letter.ending, result_bytes=len(letter.result.encode())))
    for room in range(LETTER_MAX - 100, 0, -200):  # escaped characters need more bytes
        data = msgspec.json.encode(
            PodMessage(letter.ending, error=clean_text(letter.error, room), names=letter.names[:3])
        )
        if len(data) <= LETTER_MAX:
            return data
    return msgspec.json.encode(PodMessage(letter.ending, error="its traceback is in the log"))


def opened(message: str) -> PodMessage | None:
    """Read an answer; None if it is not valid, because the function ended its process or wrote its own message."""
    try:
        return _LETTERS.decode(message)
    except msgspec.DecodeError:
        return None
