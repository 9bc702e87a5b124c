"""Secrets in files: the value that is read, and errors without the secret."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from itinerary.errors import ConfigError
from itinerary.executors.secret_files import SECRET_FILE_MAX
from itinerary.executors.secrets import environment_secret
from itinerary.executors.shell import ShellExecutor
from itinerary.masking import without_hidden
from itinerary.model.attempts import Succeeded
from tests.contracts.executors.stage import Stage

CANARY = "correct-horse-battery-staple"
VARIABLE = "ITINERARY_SECRET_API_FILE"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "api"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.spec("Q7", "secrets in files")
@pytest.mark.parametrize(
    ("written", "secret"),
    [
        ("abcd", "abcd"),
        ("abcd\n", "abcd"),
        ("abcd\r\n", "abcd"),
        ("abcd\n\n", "abcd\n"),
        (" ab cd ", " ab cd "),
        ("x" * SECRET_FILE_MAX, "x" * SECRET_FILE_MAX),
    ],
    ids=["no newline", "newline", "CR LF", "two newlines", "spaces", "the largest"],
)
def test_one_newline_at_the_end_of_a_secret_file_is_removed(file: Path, written: str, secret: str) -> None:
    file.write_text(written, "utf-8", newline="")
    assert environment_secret("API") == secret


@pytest.mark.spec("Q7", "secrets in files")
def test_a_secret_file_is_read_each_time_its_secret_is_used(file: Path, tmp_path: Path) -> None:
    async def outcome(secret: str) -> object:
        run = {"shell": f"test $API = {secret} && echo $API", "use_shell": True, "env": {"API": {"secret": "API"}}}
        async with Stage(ShellExecutor(), tmp_path) as stage:
            return await stage.outcome(stage.begin(run))

    for secret in ("first-value", "second-value"):
        file.write_text(secret + "\n", "utf-8")
        assert asyncio.run(outcome(secret)) == Succeeded(output="[secret API]\n")
    assert without_hidden("first-value, second-value") == "…hidden…, …hidden…"


def make_too_large(path: Path) -> None:
    path.write_text(CANARY * 10_000, "utf-8")


def make_bytes(path: Path) -> None:
    path.write_bytes(CANARY.encode() + b"\xff")


@pytest.mark.spec("Q7", "secrets in files")
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda path: None,
            "cannot be read: No such file or directory; give the path of a file that the node may read",
        ),
        (Path.mkdir, "is no regular file; write the secret into a file"),
        (os.mkfifo, "is no regular file; write the secret into a file"),
        (Path.touch, "is empty; write the secret into it"),
        (lambda path: path.write_text("\n"), "is empty; write the secret into it"),
        (make_too_large, f"has more than {SECRET_FILE_MAX} bytes; a secret is shorter"),
        (make_bytes, "is not UTF-8; write the secret as text"),
    ],
    ids=["missing", "directory", "pipe", "empty", "newline only", "too large", "bytes"],
)
def test_a_secret_file_that_cannot_be_used_is_told_with_its_variable_and_without_its_content(
    file: Path, make: object, told: str
) -> None:
    assert callable(make)
    make(file)
    with pytest.raises(ConfigError) as raised:
        environment_secret("API")
    assert str(raised.value) == f"{VARIABLE}: {file} {told}"
    assert CANARY not in repr(raised.value.__context__)


@pytest.mark.spec("Q7", "secrets in files")
def test_a_secret_has_one_source(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(CANARY, "utf-8")
    with pytest.raises(ConfigError, match=f"{VARIABLE} names the file of a secret; refer to API instead"):
        environment_secret("API_FILE")
    monkeypatch.setenv("ITINERARY_SECRET_API", CANARY)
    with pytest.raises(ConfigError, match="both ITINERARY_SECRET_API and ITINERARY_SECRET_API_FILE are set"):
        environment_secret("API")
