"""Modules beside a file that a command reads: a job file is data, and takes no installed module's place (Q3)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import itinerary
from tests.e2e.cli.program import PATIENCE, Program

JOBS = """
[jobs.report]
schedule = "0 3 * * *"

[[jobs.report.tasks]]
name = "run"
python = "reports:nightly"
"""
LATE = ["--store", "lmdb:///runs"]
"""A store whose module is imported after the job file was read."""
HOSTILE = "from pathlib import Path\nPath({mark!r}).touch()\n"
SAFE = (sys.executable, "-P", "-m", "itinerary")
"""As the installed command: the directory that it is typed in is not on the module path."""


@pytest.mark.spec("Q3", "a job file is data")
@pytest.mark.parametrize(
    "arguments",
    [["check"], ["plan", *LATE], ["simulate", *LATE], ["apply", *LATE], ["up", "--plan", *LATE]],
    ids=lambda arguments: arguments[0],
)
def test_no_command_imports_a_hostile_module_beside_the_job_file_that_it_reads(
    tmp_path: Path, arguments: list[str]
) -> None:
    mark = tmp_path / "was imported"
    for name in ("json", "itinerary", "tomllib", "click", "lmdb", "numpy", "reports"):
        (tmp_path / f"{name}.py").write_text(HOSTILE.format(mark=str(mark)), "utf-8")
    (tmp_path / "jobs.toml").write_text("allow_modules = ['reports']\n" + JOBS, "utf-8")
    command, *options = arguments
    done = subprocess.run(  # noqa: S603 - our own program
        [*SAFE, command, "jobs.toml", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(itinerary.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not mark.exists()


@pytest.mark.spec("Q3", "a job file is data")
def test_a_node_finds_functions_beside_its_job_file_and_installed_modules_before_them(tmp_path: Path) -> None:
    mark = tmp_path / "was imported"
    work = tmp_path / "work"
    work.mkdir()
    (work / "wave.py").write_text(HOSTILE.format(mark=str(mark)), "utf-8")
    (work / "reports.py").write_text("import wave\n\ndef nightly():\n    return wave.WAVE_FORMAT_PCM\n", "utf-8")
    text = "allow_modules = ['reports']\n" + JOBS.replace("0 3 * * *", "* * * * * *")
    for executor in ("thread", "process"):
        text += (
            JOBS.replace("report]", f"{executor}]")
            .replace("report.", f"{executor}.")
            .replace("0 3 * * *", "* * * * * *")
            + f'executor = "{executor}"\n'
        )
    (work / "jobs.toml").write_text(text, "utf-8")
    with Program(tmp_path, "up", "work/jobs.toml", "--store", "sqlite:///runs.db") as node:
        seen: set[str] = set()
        while seen < {"report", "thread", "process"}:
            seen.add(node.until(lambda line: "completed" in line).split()[1])
        node.signal(signal.SIGTERM)
        assert node.end() == 0
    assert not mark.exists()


@pytest.mark.spec("Q3", "a job file is data")
def test_a_program_finds_its_neighbours_and_installed_modules_before_them(tmp_path: Path) -> None:
    mark = tmp_path / "was imported"
    work = tmp_path / "work"
    work.mkdir()
    (work / "wave.py").write_text(HOSTILE.format(mark=str(mark)), "utf-8")
    (work / "neighbour.py").write_text("import wave\nevery_hour = '1h'\n", "utf-8")
    (work / "app.py").write_text(
        "import neighbour\nfrom itinerary import Itinerary, every\napp = Itinerary()\n\n"
        "@app.job(every(neighbour.every_hour))\ndef hourly() -> None: ...\n",
        "utf-8",
    )
    with Program(tmp_path, "check", "work/app.py") as command:
        assert command.end() == 0, command.errors
    assert not mark.exists()
