"""The steps of the Dockerfile's builder, run here in a temporary folder, and a node from what they make.

No engine of containers is needed. The base image is this machine's Python, so its version may be another one. The
user of the final stage and its read-only root are not tried, since they need an image.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.dockerfile import ROOT, Instruction, stages

BIN: Final = Path(sys.executable).parent
PATIENCE: Final = 900
"""Seconds after which a step has hung. Nothing is measured by it."""
JOBS: Final = """
[jobs.hello]
schedule = { every = "1h" }
tasks = [{ name = "say", shell = ["true"] }]
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Replay the steps of the builder in a folder that stands for the root of its image."""
    root = tmp_path_factory.mktemp("image")
    if not (BIN / "pip").exists():
        pytest.skip("this Python has no pip, which the Dockerfile uses")
    probe = ["download", "--quiet", "--no-deps", "--retries", "0", "--dest", str(root / "probe"), "h11"]
    if _run([str(BIN / "pip"), *probe], root).returncode:
        pytest.skip("no package index answers, so nothing can be installed")
    work = root / "build"
    work.mkdir()
    _, (builder, _) = stages()
    for step in builder.instructions:
        match step.keyword:
            case "RUN":
                done = _run(["sh", "-ec", step.rest.replace("/opt/", f"{root}/opt/")], work, builder.variables())
                assert done.returncode == 0, f"RUN {step.rest}\n{done.stdout}\n{done.stderr}"
            case "COPY":
                _copy(step, work)
            case "ENV" | "WORKDIR":
                pass
            case other:
                pytest.fail(f"{other}: this test does not know how to replay this instruction")
    yield root
    shutil.rmtree(root)


def _run(command: list[str], folder: Path, more: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **(more or {})}
    return subprocess.run(  # noqa: S603 - steps of our own Dockerfile
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def _copy(step: Instruction, work: Path) -> None:
    *sources, target = step.words
    for source in sources:
        if source.endswith("/"):
            ignored = shutil.ignore_patterns("__pycache__", "*.py[cod]")
            shutil.copytree(ROOT / source, work / target, ignore=ignored)
        else:
            (work / target).mkdir(exist_ok=True)
            shutil.copy(ROOT / source, work / target)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _final_environment(machine: Path, **more: str) -> dict[str, str]:
    _, (_, final) = stages()
    variables = {name: text.replace("$PATH", os.environ["PATH"]) for name, text in final.variables().items()}
    variables["PATH"] = variables["PATH"].replace("/opt/", f"{machine}/opt/")
    return {**variables, "HOME": str(machine), **more}


def test_the_environment_of_the_image_holds_itinerary_and_what_the_lock_pins_and_no_pip(machine: Path) -> None:
    listed = _run([str(BIN / "pip"), "--python", f"{machine}/opt/itinerary", "list", "--format", "json"], machine)
    found = {one["name"].lower(): one["version"] for one in json.loads(listed.stdout)}
    pinned = (machine / "build/runtime.txt").read_text("utf-8")
    assert found.pop("itinerary-scheduler")
    assert "pip" not in found
    assert {"psycopg", "psycopg-binary", "kubernetes-asyncio", "numpy"} <= {name.replace("_", "-") for name in found}
    for name, version in found.items():
        assert f"{name.replace('_', '-')}=={version} " in pinned


def test_a_node_of_the_image_is_healthy_and_the_health_check_says_when_there_is_none(machine: Path) -> None:
    _, (_, final) = stages()
    (check,), (entry,) = final.all("HEALTHCHECK"), final.all("ENTRYPOINT")
    command = json.loads(check.rest.partition(" CMD ")[2])
    home = machine / "app"
    home.mkdir()
    (home / "jobs.toml").write_text(JOBS, "utf-8")
    store = f"sqlite:///{home / 'store.db'}"
    environ = _final_environment(machine, ITINERARY_HEALTH=f"127.0.0.1:{_free_port()}", ITINERARY_STORE=store)
    python = f"{machine}/opt/itinerary/bin/{command[0]}"

    def is_healthy() -> bool:
        asked = subprocess.run(  # noqa: S603 - the command of our own Dockerfile
            [python, *command[1:]], env=environ, capture_output=True, check=False, timeout=PATIENCE
        )
        return asked.returncode == 0

    assert not is_healthy()
    program = [f"{machine}/opt/itinerary/bin/{json.loads(entry.rest)[0]}", "up", "jobs.toml", "--no-web"]
    with (home / "log").open("wb") as log:
        node = subprocess.Popen(program, cwd=home, env=environ, stdout=log, stderr=log)  # noqa: S603 - see above
        try:
            ends = time.monotonic() + PATIENCE
            while not is_healthy():
                assert node.poll() is None, (home / "log").read_text()
                assert time.monotonic() < ends, (home / "log").read_text()
            node.send_signal(signal.SIGTERM)
            assert node.wait(PATIENCE) == 0, (home / "log").read_text()
        finally:
            node.kill()
            node.wait(PATIENCE)
    assert not is_healthy()
