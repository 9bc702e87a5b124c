"""What a function in a pod is told, and how its end comes back through 4 kB."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from itinerary.executors.pods.messages import LETTER_MAX, PodMessage, addressed, letter_of, opened, sealed
from itinerary.executors.worker_protocol import AnswerStatus
from itinerary.model.attempts import Assignment, AttemptKey, Failed, Stopped, Succeeded
from itinerary.model.rows import Ref
from tests.contracts.executors.stage import facts

CODE = """
import os, sys, time

def adds(ctx):
    print("adding for", ctx.job, ctx.attempt)
    return {"sum": 3}

def raises(ctx):
    raise ValueError("no such thing")

def returns_much(ctx):
    return "x" * 10_000

def raises_much(ctx):
    raise ValueError("y" * 10_000)

def waits(ctx):
    print("waiting", flush=True)
    time.sleep(1000)

def leaves():
    os._exit(7)

async def awaits(ctx):
    return ctx.task
"""


def begun(tmp_path: Path, name: str) -> subprocess.Popen[str]:
    (tmp_path / "work.py").write_text(CODE)
    run = {"python": f"work:{name}", "pod": {"image": "local/app:1"}}
    told = addressed(Assignment(AttemptKey(Ref(1), 0, 1), "pod", run, facts()))
    env = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "ITINERARY_POD_RUN": told,
        "ITINERARY_POD_MESSAGE": str(tmp_path / "message"),
    }
    command = [sys.executable, "-m", "itinerary.executors.pods.entrypoint"]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603


def ran(tmp_path: Path, name: str) -> tuple[int, str, PodMessage | None]:
    process = begun(tmp_path, name)
    out, err = process.communicate(timeout=60)
    path = tmp_path / "message"
    return process.returncode, out + err, opened(path.read_text()) if path.exists() else None


@pytest.mark.spec("K6")
def test_a_function_runs_with_its_context_and_its_result_comes_back(tmp_path: Path) -> None:
    assert ran(tmp_path, "adds") == (0, "adding for nightly 1\n", PodMessage(AnswerStatus.SUCCEEDED, '{"sum":3}'))
    assert ran(tmp_path, "awaits") == (0, "", PodMessage(AnswerStatus.SUCCEEDED, '"main"'))


@pytest.mark.spec("K6")
def test_a_function_that_raises_comes_back_as_its_traceback_which_is_in_the_log_too(tmp_path: Path) -> None:
    code, printed, letter = ran(tmp_path, "raises")
    assert code == 1
    assert letter is not None
    assert letter.ending is AnswerStatus.FAILED
    assert letter.names[0] == "ValueError"
    assert letter.error.splitlines()[-1] == "ValueError: no such thing"
    assert letter.error in printed


@pytest.mark.spec("K6", "4 kB")
def test_what_is_too_long_for_the_message_is_in_the_log(tmp_path: Path) -> None:
    code, printed, letter = ran(tmp_path, "returns_much")
    assert (code, letter) == (0, PodMessage(AnswerStatus.SUCCEEDED, result_bytes=10_002))
    assert json.loads(printed) == "x" * 10_000
    code, printed, letter = ran(tmp_path, "raises_much")
    assert code == 1
    assert letter is not None
    assert "left out" in letter.error
    assert "y" * 10_000 in printed


@pytest.mark.spec("K6", "cancelled")
def test_a_function_that_is_asked_to_end_says_so(tmp_path: Path) -> None:
    process = begun(tmp_path, "waits")
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert opened((tmp_path / "message").read_text()) == PodMessage(AnswerStatus.STOPPED)


@pytest.mark.spec("K6")
def test_a_function_that_takes_its_process_down_leaves_no_message(tmp_path: Path) -> None:
    assert ran(tmp_path, "leaves") == (7, "", None)


@pytest.mark.spec("K6")
@pytest.mark.parametrize("missing", ["work:nothing", "absent:adds"])
def test_a_function_that_the_image_lacks_is_an_error_that_says_so(tmp_path: Path, missing: str) -> None:
    (tmp_path / "work.py").write_text(CODE)
    run = {"python": missing, "pod": {"image": "local/app:1"}}
    told = addressed(Assignment(AttemptKey(Ref(1), 0, 1), "pod", run, facts()))
    env = os.environ | {"PYTHONPATH": str(tmp_path), "ITINERARY_POD_RUN": told}
    env["ITINERARY_POD_MESSAGE"] = str(tmp_path / "message")
    command = [sys.executable, "-m", "itinerary.executors.pods.entrypoint"]
    subprocess.run(command, env=env, capture_output=True, timeout=60, check=False)  # noqa: S603
    letter = opened((tmp_path / "message").read_text())
    assert letter is not None
    assert letter.error.startswith(f"python: {missing}")


@pytest.mark.parametrize(
    "outcome",
    [
        Succeeded('{"a":1}'),
        Succeeded(json.dumps("é" * 5_000)),
        Failed("Traceback\n" * 2_000, ("app.Odd", "builtins.Exception")),
        Failed('"\\' * 8_000, tuple("n" * 500 for _ in range(20))),
        Stopped(),
    ],
)
def test_every_letter_fits_and_can_be_read(outcome: Any) -> None:
    data = sealed(letter_of(outcome))
    assert len(data) <= LETTER_MAX
    letter = msgspec.json.decode(data, type=PodMessage)
    assert letter.ending is letter_of(outcome).ending


@pytest.mark.parametrize("message", ["", "out of memory", "{}", '{"ending":"else"}', "[1]", "null"])
def test_what_is_no_letter_is_none(message: str) -> None:
    assert opened(message) is None
