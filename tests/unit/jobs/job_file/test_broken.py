"""Everything that can be wrong with a job file, and the line that says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from itinerary import Itinerary
from itinerary.errors import JobFileError
from itinerary.jobs.declaration import DEFINITION_MAX
from itinerary.jobs.job_file import FILE_MAX

GOOD = '[jobs.a]\nschedule = "@daily"\n[[jobs.a.tasks]]\nname = "t"\nshell = ["true"]\n'


def cases() -> list[tuple[str, str]]:
    """The texts of broken.txt, each with what is to be said about it."""
    _, *parts, _ = Path(__file__).with_name("broken.txt").read_text("utf-8").split("-----\n")
    pairs = [part.split("=====\n") for part in parts]
    return [(text, told.rstrip("\n")) for text, told in pairs]


def complaint(content: str | bytes) -> str:
    """What is said about a file of this content, which is in the working directory."""
    Path("jobs.toml").write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(JobFileError) as caught:
        Itinerary(job_file="jobs.toml")
    return str(caught.value)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.spec("U2", "errors name file, line and key")
@pytest.mark.spec("Q7", "unknown keys")
@pytest.mark.parametrize(("text", "told"), cases())
def test_each_mistake_is_one_line_with_file_line_key_value_and_what_is_allowed(text: str, told: str) -> None:
    assert complaint(text) == told


@pytest.mark.spec("U2", "errors name file, line and key")
def test_there_are_enough_broken_files() -> None:
    assert len(cases()) >= 100


@pytest.mark.spec("U2", "all mistakes at once")
def test_all_mistakes_of_a_file_are_told_in_the_order_of_its_lines() -> None:
    text = (
        'grace_period = "soon"\n'
        "[jobs.b]\n"
        'schedule = "61 * * * *"\n'
        'overlap = "skpi"\n'
        "[[jobs.b.tasks]]\n"
        'name = "t"\n'
        "shell = []\n"
        "[calendars.c]\n"
        'dates = ["never"]\n'
        "[jobs.a]\n"
        'overlap = "que"\n'
    )
    lines = [line.split(": ")[0:2] for line in complaint(text).splitlines()]
    assert lines == [
        ["jobs.toml:1", "grace_period"],
        ["jobs.toml:3", "jobs.b.schedule"],
        ["jobs.toml:4", "jobs.b.overlap"],
        ["jobs.toml:7", "jobs.b.tasks[0].shell"],
        ["jobs.toml:9", "calendars.c.dates"],
        ["jobs.toml:10", "jobs.a.schedule"],
        ["jobs.toml:10", "jobs.a.tasks"],
        ["jobs.toml:11", "jobs.a.overlap"],
    ]


@pytest.mark.spec("U2", "all mistakes at once")
def test_of_very_many_mistakes_the_first_are_told() -> None:
    lines = complaint("".join(f"x{number} = 1\n" for number in range(1_500)) + GOOD).splitlines()
    assert len(lines) == 1_001
    assert lines[-1] == "jobs.toml: and 500 more mistakes; these come first"


@pytest.mark.spec("Q4", "job files")
def test_a_definition_has_a_limit() -> None:
    variables = ", ".join(f'V{number} = "{"x" * 1000}"' for number in range(300))
    told = complaint(GOOD + f"env = {{ {variables} }}\n")
    assert told.startswith("jobs.toml:1: jobs.a: its definition is 3")
    assert told.endswith(f"bytes of JSON, {DEFINITION_MAX} are allowed")


@pytest.mark.spec("Q4", "job files")
def test_a_file_has_a_limit_and_is_read_no_further() -> None:
    told = complaint(b"#" * (FILE_MAX + 1))
    assert told == f"jobs.toml: it has more than {FILE_MAX} bytes, which are allowed; make it several files"


@pytest.mark.spec("Q4", "job files")
@pytest.mark.parametrize("depth", [65, 5_000])
def test_values_nest_only_so_deep(depth: int) -> None:
    assert complaint("a = " + "[" * depth + "]" * depth) == (
        "jobs.toml: values are nested more than 64 deep; flatten them"
    )


@pytest.mark.spec("Q4", "job files")
@pytest.mark.parametrize(
    "key",
    [
        "\n" + "a." * 1_000_000 + "a = 1",
        "\n[" + "a." * 1_000_000 + "a]",
        "\n[[ " + "'a' . " * 200 + "a]]",
        "x = 1\ny = { b = 1, " + '"a\\n". ' * 128 + "a = 1 }",
    ],
)
def test_keys_lead_only_so_deep(key: str) -> None:
    assert complaint(key) == "jobs.toml:2: keys lead more than 128 deep; flatten them"


@pytest.mark.spec("Q4", "job files")
def test_headers_and_keys_together_lead_only_so_deep() -> None:
    text = "[" + "a." * 100 + "a]\n" + "b." * 100 + "b = 1\n"
    assert complaint(text) == "jobs.toml: keys lead more than 128 deep; flatten them"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'a = 1\nb = "\xff"\n', "jobs.toml:2: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b"\xff\xfea\x00", "jobs.toml:1: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b'a = "\x00"\n', "jobs.toml:1:6: this is not TOML: Illegal character '\\x00'"),
        (b"\x7fELF\x02\x01\x01\x00", "jobs.toml:1:1: this is not TOML: Invalid statement"),
        (b"\x00" * 100, "jobs.toml:1:1: this is not TOML: Invalid statement"),
    ],
)
def test_what_is_no_text_is_said_to_be_none(content: bytes, told: str) -> None:
    assert complaint(content) == told


def test_what_is_no_file_is_said_to_be_none(tmp_path: Path) -> None:
    os.mkfifo("pipe.toml")
    for place, told in [
        ("missing.toml", "missing.toml: there is no such file"),
        (str(tmp_path), f"{tmp_path}: this is a directory; name a file in it"),
        ("pipe.toml", "pipe.toml: this is not a file"),
    ]:
        with pytest.raises(JobFileError) as caught:
            Itinerary(job_file=place)
        assert str(caught.value) == told


def test_a_file_may_begin_with_a_byte_order_mark_and_end_its_lines_as_windows_does() -> None:
    Path("jobs.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert [job.name for job in Itinerary(job_file="jobs.toml")] == ["a"]
    assert complaint("\r\n\r\n" + GOOD.replace("\n", "\r\n") + "overlap = 1\r\n").startswith("jobs.toml:8: ")
