"""The program in the pod of a Python function (K6): `python -m itinerary.executors.pods.entrypoint`.

    ITINERARY_POD_RUN ─► the function, with its context ─► the termination message

The program looks up the function by its name, as in a worker process, in the module path of the image. A deleted pod
gets SIGTERM, which asks the function to end: TaskCancelled is raised in a plain function, and a coroutine is cancelled.
The log of the pod has the output of the function, and a traceback or result that is too long for the message.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from itinerary.executors.pods.messages import LETTER_MAX, RUN_VARIABLE, letter_of, read_run, sealed
from itinerary.executors.worker import FunctionRunner, flush
from itinerary.model.attempts import Failed, Succeeded

__all__ = ["main"]

MESSAGE_VARIABLE: Final = "ITINERARY_POD_MESSAGE"
"""The variable with the path of the message, if it is not the default path of Kubernetes."""
_MESSAGE: Final = "/dev/termination-log"


def main() -> int:
    """Run the function, and return the exit code: 0 for success, 1 for another end, 2 for a wrong call."""
    told = os.environ.pop(RUN_VARIABLE, None)
    if told is None:
        sys.stderr.write(f"{RUN_VARIABLE} is not set: this is started by Itinerary, in a pod of a task\n")
        return 2
    try:
        run = read_run(told)
    except msgspec.DecodeError as error:
        sys.stderr.write(f"{RUN_VARIABLE} cannot be read; is the image of another version of Itinerary? {error}\n")
        return 2
    message_at = os.environ.pop(MESSAGE_VARIABLE, _MESSAGE)
    desk = FunctionRunner()
    signal.signal(signal.SIGTERM, desk.terminated)
    outcome = desk.run(run)
    message = sealed(letter := letter_of(outcome))
    match outcome:
        case Failed(error=traceback):
            sys.stderr.write(f"{traceback}\n")
        case Succeeded(result=str(result)) if len(msgspec.json.encode(letter)) > LETTER_MAX:
            sys.stdout.write(f"{result}\n")
        case _:
            pass
    flush()
    Path(message_at).write_bytes(message)
    return 0 if isinstance(outcome, Succeeded) else 1


if __name__ == "__main__":
    sys.exit(main())
